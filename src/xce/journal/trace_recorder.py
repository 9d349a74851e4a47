"""Recording of traces: which sessions are traced, and what they told goes to a directory."""

from collections.abc import Iterable
from typing import Protocol

from xce.journal.trace_store import TraceWriter
from xce.model.ids import Micros
from xce.model.trace import EVERYTHING, TraceKind, TraceRule
from xce.sched.traced import Trace


class Recorder(Protocol):
    """Traces sessions one after the other: ``open``, the session, ``keep``."""

    def open(self) -> Trace | None:
        """Return what to trace of the next session, or None: nothing."""
        ...

    def keep(self, trace: Trace) -> None:
        """Keep what the session told."""
        ...


class WholeRecorder:
    """Traces everything, of every session or of one.

    Args:
        writer: Where it goes.
        only: The number of the only session to trace, from 1; 0: all.
    """

    def __init__(self, writer: TraceWriter, *, only: int = 0) -> None:
        self._writer = writer
        self._only = only
        self.sessions = 0
        """So many have begun."""

    def open(self) -> Trace | None:
        """Return what to trace of the next session, or None: nothing."""
        self.sessions += 1
        return Trace([EVERYTHING]) if self._only in (0, self.sessions) else None

    def keep(self, trace: Trace) -> None:
        """Keep what the session told."""
        if trace.session is not None:
            self._writer.write(trace.session)


class RuleCounter:
    """Which rules ask for the next session; counts the sessions of those that want some only."""

    def __init__(self) -> None:
        self._had: dict[int, int] = {}
        """By rule."""

    def due(self, rules: Iterable[TraceRule], now_us: Micros) -> list[TraceRule]:
        """Return the rules that are in effect."""
        return [rule for rule in rules if rule.until_us > now_us and not self._is_over(rule)]

    def note(self, rules: Iterable[TraceRule]) -> tuple[int, ...]:
        """Count a session for rules; return the numbers of those that have had all theirs."""
        counted = [rule for rule in rules if rule.kind is TraceKind.SESSION]
        for rule in counted:
            self._had[rule.number] = self._had.get(rule.number, 0) + 1
        return tuple(rule.number for rule in counted if self._is_over(rule))

    def _is_over(self, rule: TraceRule) -> bool:
        had = self._had.get(rule.number, 0)
        return rule.kind is TraceKind.SESSION and had >= rule.sessions
