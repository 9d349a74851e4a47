"""An ideal host of a scenario: it does at once what it is told, and jobs die of the first signal.

It stands in for worker, shepherd and processes. What real ones do on the way is tested elsewhere.
"""

from typing import Final

import msgspec

from xce.model.checkpoint import is_checkpoint
from xce.model.effect import Effect, Launch, SendSignal, SetSuspended, Terminate
from xce.model.ids import Index, JobId, Micros
from xce.model.job import EndCause
from xce.model.observation import (
    AttemptEnded,
    AttemptStarted,
    HostDisconnected,
    HostJoined,
    Reported,
    SuspensionSeen,
)
from xce.sim.scenario import PlannedJob

_INT, _KILL, _USR2 = 2, 9, 12
_HARMLESS: Final = frozenset({17, 18, 23, 28})
"""Signals that a process ignores if it says nothing else."""
Element = tuple[JobId, Index]


class Live(msgspec.Struct):
    """An attempt that runs here."""

    attempt: int
    left_us: Micros | None
    """How long it still runs from ``since_us`` on; None: without end."""
    limit_us: Micros | None
    """So long until its run limit; None: it has none."""
    since_us: Micros
    exit_code: int
    suspended: bool = False
    signals: int = 0
    """How many of the user's signals were delivered."""
    turn: int = 0
    """Counts changes of its end, so that an old one is known."""


class News(msgspec.Struct):
    """What happened on a host and is not told yet."""

    started: list[AttemptStarted] = []
    ended: list[AttemptEnded] = []
    suspended: list[SuspensionSeen] = []
    gone: list[tuple[JobId, Index, int]] = []


class ScenarioHost:
    """One host, not up yet.

    Args:
        name: Its name.
        cpus: What it reports, where the configuration does not say how many slots it has.
        mem_mib: What it reports.
        boot_id: Of the boot before; empty: none.
    """

    def __init__(
        self, name: str, *, cpus: int = 1, mem_mib: int = 0, boot_id: str = "first"
    ) -> None:
        self.name = name
        self._cpus = cpus
        self._mem_mib = mem_mib
        self._boot_id = boot_id
        self.is_up = False
        self.live: dict[Element, Live] = {}
        self.ends: list[tuple[Micros, Element, int]] = []
        """New ends to be put on the calendar: ``(at, element, turn)``."""
        self._boots = 0
        self._numbers = 0
        self._pids = 0
        self._turns = 0
        self._news = News()

    def join(self) -> HostJoined:
        """Come up (again), with nothing running."""
        self.is_up = True
        self._boots += 1
        return HostJoined(self.name, f"{self.name}-{self._boots}", cpus=1, mem_mib=0, version="sim")

    def leave(self) -> HostDisconnected:
        """Lose power: whatever ran is gone, and nobody is told how it ended; all notice it."""
        self.is_up = False
        self.live.clear()
        self._news = News()
        return HostDisconnected(self.name, silent=True)

    def report(self) -> Reported | None:
        """Return what happened since the last report, or None when nothing did."""
        news = self._news
        if not (news.started or news.ended or news.suspended or news.gone):
            return None
        self._news = News()
        self._numbers += 1
        return Reported(
            self.name,
            self._numbers,
            tuple(news.started),
            tuple(news.ended),
            tuple(news.suspended),
            tuple(news.gone),
        )

    def launch(
        self, effect: Launch, planned: PlannedJob, runs_us: list[Micros | None], now_us: Micros
    ) -> None:
        """Start attempts; ``runs_us`` says how long each runs."""
        rows = zip(effect.indices, effect.attempts, runs_us, strict=True)
        for index, attempt, run_us in rows:
            element = (effect.job, index)
            if element in self.live and self.live[element].attempt >= attempt:
                continue
            self._pids += 1
            self._news.started.append(AttemptStarted(effect.job, index, attempt, self._pids))
            live = Live(attempt, run_us, effect.run_limit_us or None, now_us, planned.exit_code)
            self.live[element] = live
            self._plan_end(element, live)

    def adopt(self, element: Element, live: Live) -> None:
        """Take over an attempt that runs already."""
        self.live[element] = live
        self._plan_end(element, live)

    def take(self, effect: Effect, now_us: Micros) -> None:
        """Do what another effect than a launch wants."""
        assert not isinstance(effect, Launch)
        element = (effect.job, effect.index)
        live = self.live.get(element)
        if isinstance(effect, Terminate) and effect.forget:
            # What an attempt has on its other hosts is nothing here.
            self._news.gone.append((*element, effect.attempt))
        if live is None or live.attempt != effect.attempt:
            return
        match effect:
            case Terminate():
                mild = _USR2 if effect.cause is EndCause.DEADLINE else _INT
                signal = _KILL if effect.force else mild
                self._end(element, live, signal=signal, cause=effect.cause)
                if effect.forget:
                    self._news.ended.pop()
            case SetSuspended():
                self._suspend(element, live, now_us, suspended=effect.suspended)
            case SendSignal() if effect.number > live.signals:
                live.signals = effect.number
                if effect.signal not in _HARMLESS and not is_checkpoint(effect.signal):
                    self._end(element, live, signal=effect.signal)

    def end_due(self, element: Element, turn: int) -> bool:
        """End an attempt whose time has come, unless its end has changed since; return whether."""
        live = self.live.get(element)
        if live is None or live.turn != turn:
            return False
        if live.limit_us is not None and (live.left_us is None or live.limit_us < live.left_us):
            self._end(element, live, signal=_USR2, cause=EndCause.RUNLIMIT)
        else:
            self._end(element, live)
        return True

    def _plan_end(self, element: Element, live: Live) -> None:
        self._turns += 1
        live.turn = self._turns
        spans = [span for span in (live.left_us, live.limit_us) if span is not None]
        if spans and not live.suspended:
            self.ends.append((live.since_us + min(spans), element, live.turn))

    def _suspend(self, element: Element, live: Live, now_us: Micros, *, suspended: bool) -> None:
        if live.suspended != suspended:
            if suspended:
                ran_us = now_us - live.since_us
                live.left_us = None if live.left_us is None else live.left_us - ran_us
                live.limit_us = None if live.limit_us is None else live.limit_us - ran_us
            live.suspended = suspended
            live.since_us = now_us
            self._plan_end(element, live)
        self._news.suspended.append(SuspensionSeen(*element, live.attempt, suspended=suspended))

    def _end(
        self, element: Element, live: Live, *, signal: int = 0, cause: EndCause = EndCause.NONE
    ) -> None:
        del self.live[element]
        code = 128 + signal if signal else live.exit_code
        self._news.ended.append(
            AttemptEnded(*element, live.attempt, exit_code=code, signal=signal, cause=cause)
        )
