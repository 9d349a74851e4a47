"""A shepherd whose jobs are simulated: in the worker's process, with no process and no file a job.

Everything else of a hollow host is real: its connection, the protocol, the host state machine, the
scripts and environments that it fetches. An attempt "runs" for a while, takes signals as a process
without handlers does, and ends with an exit code. All of it is gone with the process, as after a
power cut: each start is another boot.
"""

import asyncio
import os
import re
import signal
from functools import partial
from random import Random
from typing import Final, NamedTuple

import msgspec

from xce.model.effect import Launch
from xce.model.ids import SECOND_US, Micros
from xce.model.job import EndCause
from xce.model.observation import HOLLOW
from xce.model.usage import AttemptUse
from xce.worker import action as a
from xce.worker.action import Listing
from xce.worker.clock import boot_us, clock_us
from xce.worker.ending import STEP_KILL
from xce.worker.link import PROTOCOL, OnEvents, OnList, ShepherdList
from xce.worker.order import (
    AppendOrder,
    CheckpointOrder,
    OrderFrame,
    ReadOrder,
    SpawnOrder,
    UsesOrder,
)
from xce.worker.shepherd.loop import ORDERS
from xce.worker.shepherd.still import note_still

SECONDS_NAME: Final = "XCE_HOLLOW_S"
"""A job's variable: how long it runs, ``1.5`` or ``1-10``."""
EXIT_NAME: Final = "XCE_HOLLOW_EXIT"
"""A job's variable: its exit code."""
_SECONDS: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(?:-(\d{1,9}(?:\.\d{1,6})?))?", re.ASCII)
_HARMLESS: Final = frozenset(
    {
        signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH, signal.SIGCONT, signal.SIGSTOP,
        signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
    }
)  # fmt: skip
"""What ends no process that has no handlers. Stopping is what `Suspend` is for."""
_CODE_MAX: Final = 255
_MEM_KIB: Final = 1_024
"""So much memory a simulated job uses."""
_COURSES_MAX: Final = 1_000
_NOTES: Final = msgspec.json.Decoder(Launch)


class Course(NamedTuple):
    """How a simulated job runs."""

    least_us: Micros = SECOND_US
    most_us: Micros = SECOND_US
    exit_code: int = 0

    def length_us(self, key: a.Key) -> Micros:
        """Return how long an attempt runs: the same one always as long."""
        if self.least_us == self.most_us:
            return self.least_us
        return Random(repr(key)).randint(self.least_us, self.most_us)


def parse_course(seconds: str, exit_code: str = "0") -> Course:
    """Return how jobs run.

    Args:
        seconds: ``1.5``, or ``1-10``: anything between.
        exit_code: 0 to 255.

    Raises:
        ValueError: One of them makes no sense.
    """
    found = _SECONDS.fullmatch(seconds)
    if found is None:
        raise ValueError(f"{seconds!r} is no time: expected seconds, 1.5 or 1-10")
    least_us = round(float(found[1]) * SECOND_US)
    most_us = round(float(found[2]) * SECOND_US) if found[2] else least_us
    if most_us < least_us:
        raise ValueError(f"{seconds!r} goes backwards: expected the shorter time first")
    if not exit_code.isdecimal() or not exit_code.isascii() or int(exit_code) > _CODE_MAX:
        raise ValueError(f"{exit_code!r} is no exit code: expected 0 to {_CODE_MAX}")
    return Course(least_us, most_us, int(exit_code))


class HollowOptions(NamedTuple):
    """How a hollow host's jobs run that do not say so themselves."""

    seconds: str = "1"
    exit_code: str = "0"


class _Simulated:
    """An attempt that runs, or has ended and is not forgotten."""

    def __init__(self, key: a.Key, note: str, now_us: Micros) -> None:
        self.key = key
        self.note = note
        self.pid = 0
        """0: it could not be started."""
        self.started_us = self.resumed_us = now_us
        self.left_us: Micros = 0
        """How much longer it would run from `resumed_us` on."""
        self.exit_code = 0
        self.suspended_us: Micros = 0
        self.frozen_us: Micros = 0
        self.stopped_us: Micros = 0
        self.number = self.cause = self.step = 0
        self.step_us: Micros = 0
        self.saved_us: Micros = 0
        self.outcome = a.Outcome()
        self.held: list[int] = []
        """Signals that a stopped process takes only when it goes on."""
        self.timer: asyncio.TimerHandle | None = None
        self.ended: a.Ended | None = None

    def present(self) -> a.Present:
        """Return how it is."""
        return a.Present(
            *self.key, self.note, self.pid, self.started_us, self.suspended_us, self.stopped_us,
            self.number, self.cause, self.step, self.step_us, reported=False,
            saved_us=self.saved_us, outcome=self.outcome, frozen_us=self.frozen_us,
        )  # fmt: skip

    @property
    def stands_still(self) -> bool:
        """Whether it was stopped, or is frozen."""
        return bool(self.suspended_us or self.frozen_us)


class HollowShepherd:
    """Takes a shepherd's orders and simulates what they are about.

    Args:
        options: How jobs run.
        on_list: Called once, with nothing in the list.
        on_events: Called with news, and with answers; never from within `send`.
    """

    def __init__(self, options: HollowOptions, on_list: OnList, on_events: OnEvents) -> None:
        self._options = options
        self._on_list = on_list
        self._on_events = on_events
        self._boot_id = os.urandom(16).hex()
        self._attempts: dict[a.Key, _Simulated] = {}
        self._last_pid = 0
        self._events: list[a.Event] = []
        self._courses: dict[tuple[str, str], Course | str] = {}
        self._leases: dict[a.Key, list[asyncio.TimerHandle]] = {}
        """When each is to be frozen, and killed."""
        self._is_ready = False

    @property
    def is_ready(self) -> bool:
        """Whether orders are taken."""
        return self._is_ready

    @property
    def orders(self) -> int:
        """All are known."""
        return ORDERS

    async def run(self) -> None:
        """Simulate until cancelled; then every job is gone."""
        self._is_ready = True
        greeting = a.Greeting(
            PROTOCOL, self._boot_id, f"{HOLLOW}: jobs are simulated", os.getpid(), orders=ORDERS
        )
        self._on_list(ShepherdList(greeting, self.listing()))
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._is_ready = False
            for one in self._attempts.values():
                _cancel(one.timer)
            for key in list(self._leases):
                self._drop_lease(key)

    def listing(self) -> list[Listing]:
        """Return all attempts that are not forgotten."""
        return [
            Listing(one.present(), _NOTES.decode(one.note), one.ended)
            for one in self._attempts.values()
        ]

    def send(self, frame: OrderFrame) -> None:
        """Carry out orders; one that was carried out before changes nothing."""
        if not self._is_ready:
            return
        for order in frame.orders:
            match order:
                case SpawnOrder():
                    self._spawn(order, frame.bases.get(order.shared.base, {}))
                case a.Signal():
                    self._signal(order)
                case a.Suspend(job, index, attempt, suspended):
                    self._suspend((job, index, attempt), suspended=suspended)
                case AppendOrder(job, index, attempt, _):
                    self._tell(a.Appended(job, index, attempt))
                case a.Forget(job, index, attempt, _):
                    self._forget((job, index, attempt))
                case ReadOrder(number):
                    self._tell(a.Piece(number, "", 0, "a hollow host's jobs write nothing"))
                case UsesOrder(number):
                    self._tell(a.Uses(number, self._uses()))
                case a.Lease(until):
                    self._lease(until)
                case CheckpointOrder(job, index, attempt, count, shared):
                    self._refuse_checkpoint((job, index, attempt), count, ends=shared.ends)

    def _uses(self) -> tuple[AttemptUse, ...]:
        """Return what attempts use: as much as their ends will say."""
        return tuple(
            AttemptUse(*one.key, 0, _MEM_KIB, _MEM_KIB, _MEM_KIB, 0, 1, one.pid, (one.pid,))
            for one in self._attempts.values()
            if one.ended is None
        )

    def _refuse_checkpoint(self, key: a.Key, count: int, *, ends: bool) -> None:
        one = self._living(key)
        if one is None or 0 < count <= one.number:
            return
        one.number, one.saved_us = max(one.number, count), clock_us()
        detail = "a hollow host's jobs write no checkpoints"
        one.outcome = a.Outcome(one.outcome.number + 1, ends, is_good=False, detail=detail)
        self._tell(a.Checkpointed(*key, one.saved_us, one.outcome))

    def _tell(self, event: a.Event) -> None:
        """Have something told in the next round of the loop, with what else comes by then."""
        if not self._events:
            asyncio.get_running_loop().call_soon(self._tell_all)
        self._events.append(event)

    def _tell_all(self) -> None:
        events, self._events = self._events, []
        if self._is_ready:
            self._on_events(events)

    def _course(self, environ: dict[str, str]) -> Course | str:
        """Return how a job runs; a text: what is wrong with what it says."""
        said = (
            environ.get(SECONDS_NAME, self._options.seconds),
            environ.get(EXIT_NAME, self._options.exit_code),
        )
        if said not in self._courses:
            if len(self._courses) >= _COURSES_MAX:
                self._courses.clear()
            try:
                self._courses[said] = parse_course(*said)
            except ValueError as error:
                self._courses[said] = str(error)
        return self._courses[said]

    def _spawn(self, order: SpawnOrder, environ: dict[str, str]) -> None:
        course = self._course(environ)
        now_us = clock_us()
        for job, index, attempt, *_ in order.items:
            key = (job, index, attempt)
            if key in self._attempts:
                continue
            one = self._attempts[key] = _Simulated(key, order.shared.note, now_us)
            if isinstance(course, str):
                one.cause = EndCause.START_FAILED
                self._end(one, 1, 0, detail=course)
                continue
            self._last_pid += 1
            one.pid, one.exit_code = self._last_pid, course.exit_code
            one.left_us = course.length_us(key)
            self._tell(a.Started(*key, one.pid, now_us))
            self._run(one)

    def _run(self, one: _Simulated) -> None:
        """Let an attempt run for what is left of its time."""
        loop = asyncio.get_running_loop()
        one.timer = loop.call_later(one.left_us / SECOND_US, self._end, one, one.exit_code, 0)

    def _end(self, one: _Simulated, code: int, number: int, detail: str = "") -> None:
        _cancel(one.timer)
        one.timer = None
        one.suspended_us = one.frozen_us = 0
        ran_us = clock_us() - one.started_us if one.pid else 0
        one.ended = a.Ended(
            *one.key, one.started_us if one.pid else 0, one.started_us + ran_us, code, number,
            one.cause, host_fault=False, detail=detail, user_us=min(ran_us, 1_000),
            max_mem_kib=_MEM_KIB, max_processes=1, max_threads=1,
        )  # fmt: skip
        self._drop_lease(one.key)
        self._tell(one.ended)

    def _living(self, key: a.Key) -> _Simulated | None:
        one = self._attempts.get(key)
        return one if one is not None and one.ended is None else None

    def _signal(self, order: a.Signal) -> None:
        one = self._living((order.job, order.index, order.attempt))
        if one is None:
            return
        if order.count:
            if order.count <= one.number:
                return
            one.number = order.count
        if order.step:
            one.cause, one.step, one.step_us = order.cause, order.step, clock_us()
            # As a real shepherd does: what is stopped would never take it.
            self._suspend(one.key, suspended=False)
        if one.ended is None:
            self._take_signal(one, order.number)

    def _take_signal(self, one: _Simulated, number: int) -> None:
        if number in _HARMLESS:
            return
        if one.stands_still and number != signal.SIGKILL:
            one.held.append(number)
            return
        self._end(one, 128 + number, number)

    def _suspend(self, key: a.Key, *, suspended: bool) -> None:
        one = self._living(key)
        if one is not None and suspended != bool(one.suspended_us):
            self._tell(a.Suspended(*key, suspended))
            self._be_still(one, still=suspended)

    def _freeze(self, key: a.Key, *, frozen: bool) -> None:
        one = self._living(key)
        if one is not None and frozen != bool(one.frozen_us):
            self._tell(a.Frozen(*key, frozen))
            self._be_still(one, still=frozen, by_lease=True)

    def _be_still(self, one: _Simulated, *, still: bool, by_lease: bool = False) -> None:
        now_us, stood_still = clock_us(), one.stands_still
        note_still(one, now_us, still=still, by_lease=by_lease)
        if one.stands_still and not stood_still:
            _cancel(one.timer)
            one.timer = None
            one.left_us = max(0, one.left_us - (now_us - one.resumed_us))
        elif stood_still and not one.stands_still:
            one.resumed_us = now_us
            self._run(one)
            if one.held:
                number, one.held = one.held[0], []
                self._take_signal(one, number)

    def _lease(self, until: list[tuple[int, int, int, Micros, Micros]]) -> None:
        """Let attempts stand still and end, each at its instants, unless another order comes."""
        wanted = {(job, index, number): instants for job, index, number, *instants in until}
        for key in [key for key in self._leases if wanted.get(key, [0])[0] != a.KEPT]:
            self._drop_lease(key)
        loop, now_us = asyncio.get_running_loop(), boot_us()
        for key, (frozen_us, killed_us) in wanted.items():
            if frozen_us == a.KEPT:
                continue
            due = [(killed_us, partial(self._run_out, key))]
            if frozen_us < killed_us:
                due.append((frozen_us, partial(self._freeze, key, frozen=True)))
            self._leases[key] = [
                loop.call_later(max(0, at_us - now_us) / SECOND_US, act) for at_us, act in due
            ]
        for key in self._attempts:
            if wanted.get(key, (now_us + 1,))[0] > now_us:
                self._freeze(key, frozen=False)

    def _drop_lease(self, key: a.Key) -> None:
        for timer in self._leases.pop(key, []):
            timer.cancel()

    def _run_out(self, key: a.Key) -> None:
        self._signal(a.Signal(*key, signal.SIGKILL, EndCause.HOST_LOST, STEP_KILL))

    def _forget(self, key: a.Key) -> None:
        one = self._attempts.get(key)
        if one is not None and one.ended is not None:
            del self._attempts[key]


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
