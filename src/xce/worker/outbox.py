"""What the controller has yet to hear from a host, and what it has not acknowledged. Pure.

A batch is sent once on a connection and counts as heard when it is acknowledged; when the
connection is lost, what was not acknowledged is to be said again.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from xce.model.effect import Identify
from xce.model.ids import Micros
from xce.model.job import JobSpec
from xce.model.observation import (
    TOLD_MAX,
    AttemptEnded,
    AttemptStarted,
    AttemptTold,
    CheckpointSeen,
    SuspensionSeen,
)
from xce.worker.action import Key, Outcome
from xce.worker.attempt import Live, Over
from xce.worker.past import Place

ENDS_MAX: Final = 5_000
"""Most ends in one batch."""
TOLD_BYTES_MAX: Final = 1024 * 1024
"""So many bytes of what is told of attempts are in one batch; of one that takes more, not all."""
_ENCODER: Final = msgspec.msgpack.Encoder()


class Reports(NamedTuple):
    """A batch for the controller."""

    number: int
    started: tuple[AttemptStarted, ...]
    ended: tuple[AttemptEnded, ...]
    suspended: tuple[SuspensionSeen, ...]
    gone: tuple[Key, ...]
    checkpoints: tuple[CheckpointSeen, ...]
    told: tuple[AttemptTold, ...] = ()


class _Sent(NamedTuple):
    started: dict[Key, tuple[int, Micros]]
    ended: list[Key]
    suspended: dict[Key, bool]
    checkpoints: dict[Key, dict[int, str | None]]


def _cut(told: AttemptTold) -> AttemptTold:
    """Return what is told of an attempt without what is too long."""
    return replace(told, launch=replace(told.launch, spec=JobSpec(), resreq="", claim=None))


class Outbox:
    """Reports of one host."""

    def __init__(self) -> None:
        self.over: dict[Key, Over] = {}
        """Attempts whose end is not acknowledged; it is said when it is `ready`."""
        self._started: dict[Key, tuple[int, Micros]] = {}
        self._ended: dict[Key, None] = {}
        self._suspended: dict[Key, bool] = {}
        self._checkpoints: dict[Key, dict[int, str | None]] = {}
        """By number: what went wrong, or None."""
        self._gone: dict[Key, None] = {}
        """Attempts that were to be forgotten and are gone. Not said again on another connection:
        the list of what lives says it then."""
        self._told: dict[Key, Live] = {}
        """Attempts of which all is to be told. Not said again on another connection: whoever wants
        to know asks again."""
        self._sent: dict[int, _Sent] = {}
        self._number = 0

    @property
    def has_reports(self) -> bool:
        """Whether there is something to say."""
        return bool(
            self._ended or self._started or self._suspended or self._gone or self._checkpoints
            or self._told
        )  # fmt: skip

    @property
    def in_flight(self) -> int:
        """How many batches are sent and not acknowledged."""
        return len(self._sent)

    def note_start(self, live: Live) -> None:
        """Let it be said that an attempt runs, unless that is on its way."""
        is_under_way = any(live.key in sent.started for sent in self._sent.values())
        if live.is_running and not (live.forget or is_under_way):
            self._started[live.key] = (live.pid, live.started_us)

    def note_suspension(self, key: Key, *, suspended: bool) -> None:
        """Let it be said that an attempt was stopped, or goes on."""
        self._suspended[key] = suspended

    def note_checkpoint(self, live: Live, one: Outcome) -> None:
        """Let it be said what became of a checkpoint, if somebody wants to hear of it."""
        if one.number and not live.forget:
            fault = None if one.is_good else one.detail
            self._checkpoints.setdefault(live.key, {})[one.number] = fault

    def identify(
        self, effect: Identify, live: Mapping[Place, Live], waiting: Mapping[Place, Live]
    ) -> None:
        """Let all be told that is known of an attempt, or that it is gone.

        Args:
            effect: Which is meant.
            live: What lives, by element.
            waiting: What is to live when that is gone.
        """
        place, key = (effect.job, effect.index), (effect.job, effect.index, effect.attempt)
        for one in (waiting.get(place), live.get(place)):
            if one is not None and one.attempt == effect.attempt:
                self._told[key] = one
                return
        if key not in self.over:
            self.note_gone(key)

    def note_end(self, key: Key, over: Over, *, ready: bool) -> None:
        """Keep an end until it is acknowledged; unless ``ready`` it is not said yet."""
        self.over[key] = over
        if ready:
            self._ended[key] = None

    def note_gone(self, key: Key) -> None:
        """Let it be said that nothing is left of what was to be forgotten."""
        self._gone[key] = None

    def let_say(self, key: Key) -> None:
        """Let an end be said that was not ready."""
        if key in self.over and not self.is_said(key):
            self._ended[key] = None

    def is_said(self, key: Key) -> bool:
        """Whether an end is being said or was said. Costs a look at the batches in flight."""
        return key in self._ended or any(key in sent.ended for sent in self._sent.values())

    def withdraw(self, key: Key) -> Over | None:
        """Say nothing of an attempt any more; return its end if it was kept."""
        self._started.pop(key, None)
        self._suspended.pop(key, None)
        self._checkpoints.pop(key, None)
        self._told.pop(key, None)
        self._ended.pop(key, None)
        return self.over.pop(key, None)

    def reports(self, now_us: Micros) -> Reports | None:
        """Return the next batch; None: there is nothing to say. It counts as sent."""
        if not self.has_reports:
            return None
        # All starts go, so that no end is said before its start.
        started, self._started = self._started, {}
        suspended, self._suspended = self._suspended, {}
        gone, self._gone = self._gone, {}
        checkpoints, self._checkpoints = self._checkpoints, {}
        ended = [key for _, key in zip(range(ENDS_MAX), self._ended, strict=False)]
        for key in ended:
            del self._ended[key]
        self._number += 1
        # An end that was withdrawn while it was on its way is not in `over` any more.
        self._sent[self._number] = _Sent(started, ended, suspended, checkpoints)
        return Reports(
            self._number,
            tuple(
                AttemptStarted(*key, pid, max(0, now_us - at_us))
                for key, (pid, at_us) in started.items()
            ),
            tuple(self.over[key].aged(now_us) for key in ended),
            tuple(SuspensionSeen(*key, is_so) for key, is_so in suspended.items()),
            tuple(gone),
            tuple(
                CheckpointSeen(*key, number, fault is None, fault or "")
                for key, faults in checkpoints.items()
                for number, fault in sorted(faults.items())
            ),
            tuple(self._take_told(now_us)),
        )

    def _take_told(self, now_us: Micros) -> Iterator[AttemptTold]:
        """Yield what is told, as much as a frame surely holds."""
        size = 0
        for key in list(islice(self._told, TOLD_MAX)):
            told = self._told[key].told(now_us)
            own = len(_ENCODER.encode(told))
            if size and size + own > TOLD_BYTES_MAX:
                return
            del self._told[key]
            size += own
            yield told if own <= TOLD_BYTES_MAX else _cut(told)

    def acknowledged(self, number: int) -> list[tuple[Key, Over]]:
        """Note that batches up to ``number`` were heard; return the ends that are known now."""
        known = []
        for sent in sorted(self._sent):
            if sent > number:
                break
            for key in self._sent.pop(sent).ended:
                over = self.over.pop(key, None)
                if over is not None:
                    known.append((key, over))
        return known

    def disconnected(self) -> None:
        """Note that what is not acknowledged may not have been heard."""
        for number in sorted(self._sent, reverse=True):
            sent = self._sent[number]
            self._started = sent.started | self._started
            self._suspended = sent.suspended | self._suspended
            for key, faults in sent.checkpoints.items():
                self._checkpoints[key] = faults | self._checkpoints.get(key, {})
            again = {key: None for key in sent.ended if key in self.over}
            self._ended = again | self._ended
        self._sent.clear()
        self._gone.clear()
        self._told.clear()
        self._number = 0
