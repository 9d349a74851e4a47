"""Two records of the host state machine: an attempt that lives here, and one that is over. Pure."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from msgspec.structs import replace

from xce.model.checkpoint import is_checkpoint, is_forced, wants_end
from xce.model.effect import Launch, SetLimits
from xce.model.ids import SECOND_US, Index, Micros
from xce.model.job import EndCause
from xce.model.observation import AttemptEnded, AttemptTold
from xce.model.process_limits import NO_LIMITS, ProcessLimits
from xce.model.task import PartSeen
from xce.worker import ending
from xce.worker.action import (
    Action,
    Checkpoint,
    Ended,
    Key,
    Lead,
    Present,
    SetLimit,
    Signal,
    Spawn,
    Suspend,
    Usage,
    Warn,
)
from xce.worker.shepherd.still import note_still

_TICKS_OFF: Final = 2
"""The kernel holds a process to its limit by the ticks it saw it run, which on a busy machine may
be far more than the exact time that its last account tells."""


class Live:
    """An attempt that is to run, runs, or is being ended."""

    __slots__ = (
        "attempt", "cause", "cpu_us", "due_us", "forget", "frozen_us", "index", "interval_us",
        "is_part", "is_posting", "is_running", "is_warned", "launch", "launched_us", "limits",
        "number", "number_signal",
        "own_end", "part_cpu_us", "part_used", "parts", "pid", "saved_us", "signalled",
        "started_us", "step", "step_us", "stopped_us", "suspended", "suspended_us", "used",
        "wants_suspended",
    )  # fmt: skip

    def __init__(
        self, launch: Launch, index: Index, attempt: int, *, is_part: bool = False
    ) -> None:
        self.launch = launch
        self.index = index
        self.attempt = attempt
        self.is_part = is_part
        """Another host leads it, and tells the controller of it."""
        self.is_posting = False
        """The job itself is over; its post hooks run, whatever is decided."""
        self.parts: set[str] = set()
        """Other hosts that may have something of it."""
        self.used = PartSeen()
        """What parts used that are gone, in all."""
        self.part_used: dict[str, PartSeen] = {}
        """The same by host: one may be asked about once more, and counts once."""
        self.own_end: Ended | None = None
        """How it ended here; it is over when its parts are gone too."""
        self.cpu_us: Micros = 0
        """CPU time that it used here, as far as it is told."""
        self.part_cpu_us: dict[str, Micros] = {}
        """What parts used that are not gone, by host."""
        self.is_running = is_part
        self.pid = 0
        self.started_us = 0
        self.wants_suspended = self.suspended = False
        self.suspended_us = 0
        """Since when; 0: it is not."""
        self.frozen_us = 0
        """Since when it stands still for want of the controller; 0: it does not."""
        self.stopped_us = 0
        """How long it stood still before that."""
        self.launched_us: Micros = 0
        """When the controller was there that launched it; 0: it was found here."""
        self.number = self.number_signal = 0
        """The last of the user's signals, and which it was."""
        self.signalled = (0, 0)
        """The same of those that are no requests for checkpoints: parts get them, too."""
        self.cause = EndCause.NONE
        self.step = ending.STEP_NONE
        self.step_us = 0
        self.interval_us = launch.kill_interval_us
        self.forget = is_part
        """Nobody wants to hear of its end."""
        self.limits: tuple[int, ...] = ()
        """Those that were set since the launch; empty: none."""
        self.is_warned = False
        """The signal that was asked for before the run limit is sent; kept with the limits."""
        self.saved_us: Micros = 0
        """When the last checkpoint was ordered or begun; 0: none was."""
        self.due_us = 0
        """When something is due, as it stands in the heap; 0: nothing."""

    @property
    def key(self) -> Key:
        """Which attempt."""
        return self.launch.job, self.index, self.attempt

    def anew(self) -> "Live":
        """Return the same as it was launched, before anything came of it."""
        live = Live(self.launch, self.index, self.attempt)
        live.launched_us = self.launched_us
        return live

    def signal(self) -> Signal:
        """Return the signal of the present step."""
        return Signal(*self.key, ending.signal_of(self.step, self.cause), self.cause, self.step)

    def set_limits(self, limits: tuple[int, ...]) -> None:
        """Have other limits than those of the launch, as `limits_of` gives them."""
        run_limit_us, mem_limit_kib, fence_us, *rest = limits
        self.is_warned = any(rest[2:3])
        spec = replace(self.launch.spec, mem_limit_kib=mem_limit_kib)
        if rest:
            spec = replace(spec, limits=replace(spec.limits, cpu_us=rest[0]))
        if rest[1:] and spec.checkpoints is not None:
            spec = replace(spec, checkpoints=replace(spec.checkpoints, period_us=rest[1]))
        self.launch = replace(
            self.launch, spec=spec, run_limit_us=run_limit_us, fence_us=fence_us,
            fence_kill_us=rest[3] if rest[3:] else 0,
        )  # fmt: skip
        self.limits = limits

    def limits_of(self, effect: SetLimits) -> tuple[int, ...]:
        """Return limits as the shepherd keeps them: run limit, memory limit, fence, CPU limit, the
        period of checkpoints where the job writes any, 1 where it was warned before that limit,
        and when it is killed by its fence.
        """
        is_warned = self.is_warned and effect.run_limit_us == self.launch.run_limit_us
        return self._kept(
            (effect.run_limit_us, effect.mem_limit_kib, effect.fence_us, effect.cpu_limit_us),
            effect.checkpoint_period_us, effect.fence_kill_us, is_warned=is_warned,
        )  # fmt: skip

    def _kept(
        self, limits: tuple[int, ...], period_us: Micros, kill_us: Micros, *, is_warned: bool
    ) -> tuple[int, ...]:
        if kill_us:
            return (*limits, period_us, int(is_warned), kill_us)
        if is_warned:
            return (*limits, period_us, 1)
        return limits if self.launch.spec.checkpoints is None else (*limits, period_us)

    def _note_warning(self) -> SetLimit:
        """Have it kept with the limits that the warning is sent: a worker that comes knows it."""
        launch, spec = self.launch, self.launch.spec
        period_us = spec.checkpoints.period_us if spec.checkpoints is not None else 0
        self.is_warned = True
        self.limits = self._kept(
            (launch.run_limit_us, spec.mem_limit_kib, launch.fence_us, spec.limits.cpu_us),
            period_us, launch.fence_kill_us, is_warned=True,
        )  # fmt: skip
        return SetLimit(*self.key, spec.mem_limit_kib, self.limits)

    def overrun(self, one: Usage) -> EndCause:
        """Return which limit it goes beyond; NONE: none."""
        spec, limits = self.launch.spec, self.launch.spec.limits
        if one.out_of_memory or 0 < spec.mem_limit_kib < one.mem_kib:
            return EndCause.MEMLIMIT
        if 0 < limits.swap_kib < one.swap_kib:
            return EndCause.SWAP
        if 0 < limits.processes < one.processes:
            return EndCause.PROCESSLIMIT
        if 0 < limits.threads < one.threads:
            return EndCause.THREADLIMIT
        # Parts tell in steps, so that not every look at them is a message.
        if not self.is_part or one.cpu_us >= self.cpu_us + max(SECOND_US, limits.cpu_us // 50):
            self.cpu_us = one.cpu_us
        return self.cpu_overrun()

    def cpu_overrun(self) -> EndCause:
        """Return whether the whole attempt has used more CPU time than it may."""
        limit_us = self.launch.spec.limits.cpu_us
        if not limit_us or self.is_part:
            return EndCause.NONE
        gone_us = self.used.user_us + self.used.system_us
        used_us = self.cpu_us + gone_us + sum(self.part_cpu_us.values())
        return EndCause.CPULIMIT if used_us >= limit_us else EndCause.NONE

    def note_still(self, now_us: Micros, *, still: bool, by_lease: bool = False) -> None:
        """Count the time that it stands still."""
        note_still(self, now_us, still=still, by_lease=by_lease)
        self.suspended = self.suspended if by_lease else still

    def match(self, present: Present, now_us: Micros, actions: list[Action]) -> None:
        """Take how it is, and order again what an earlier shepherd may not have done."""
        if present.limits and not self.limits:
            self.set_limits(present.limits)
        elif self.limits != present.limits:
            actions.append(SetLimit(*self.key, self.limits[1], self.limits))
        self.stopped_us, self.suspended_us = present.stopped_us, present.suspended_us
        self.frozen_us = present.frozen_us
        self.suspended = bool(present.suspended_us)
        if present.step > self.step:
            self.cause = EndCause(present.cause)
            self.step, self.step_us = present.step, min(present.step_us, now_us)
            self.wants_suspended = False
        elif self.step > present.step:
            actions.append(self.signal())
        self.saved_us = max(self.saved_us, present.saved_us)
        if self.number > present.number:
            actions.append(self.request(self.number_signal, self.number))
        self.number = max(self.number, present.number)
        if self.wants_suspended != self.suspended and not self.step:
            actions.append(Suspend(*self.key, suspended=self.wants_suspended))
        actions += [Lead(*self.key, host) for host in sorted(self.parts.difference(present.parts))]
        self.parts.update(present.parts)
        self.is_posting = self.is_posting or present.is_posting

    def next_us(self) -> Micros:
        """Return when something is due; 0: nothing."""
        if self.is_posting:
            return 0
        if self.is_part and self.step < ending.STEP_KILL:
            return 0  # whoever leads it keeps time
        if self.step:
            return ending.step_due_us(
                self.step, self.cause, self.step_us, self.launch, self.interval_us
            )
        if not self.is_running or self.suspended or self.frozen_us:
            return 0
        end_us = self._warn_us() or self._end_us()
        return min(filter(None, (end_us, self._checkpoint_us())), default=0)

    def is_at_limit(self, now_us: Micros) -> bool:
        """Whether its run limit is reached."""
        return 0 < self._end_us() <= now_us

    def _end_us(self) -> Micros:
        """Return when its run limit is reached; 0: it has none."""
        limit_us = self.launch.run_limit_us
        return self.started_us + self.stopped_us + limit_us if limit_us else 0

    def _warn_us(self) -> Micros:
        """Return when the signal before the run limit, or the deadline, is due; 0: never."""
        spec, end_us = self.launch.spec, self._end_us()
        if not spec.is_warned or self.is_warned:
            return 0
        before_end_us = max(1, end_us - spec.warning_us) if end_us else 0
        found_us = min(filter(None, (before_end_us, self.launch.warning_at_us)), default=0)
        return max(self.started_us, found_us) if found_us else 0

    def _checkpoint_us(self) -> Micros:
        """Return when a checkpoint is due; 0: never."""
        wanted = self.launch.spec.checkpoints
        if wanted is None or not wanted.period_us:
            return 0
        if self.saved_us:
            return self.saved_us + wanted.period_us
        return self.started_us + (wanted.first_us or wanted.period_us)

    def before_limit(self, now_us: Micros) -> list[Action]:
        """Return what is due before the run limit."""
        if 0 < self._checkpoint_us() <= now_us and not self.is_at_limit(now_us):
            self.saved_us = now_us
            return [Checkpoint(self.launch, *self.key)]
        if not self._warn_us():
            return []
        if self.launch.spec.warning_command:
            # First: a worker that comes in between orders it again, and it is run once.
            warn = Warn(self.launch, *self.key, self.launch.run_limit_us)
            return [warn, self._note_warning()]
        return [self._note_warning(), self.request(self.launch.spec.warning_signal, 0)]

    def told(self, now_us: Micros) -> AttemptTold:
        """Return all that is known of it."""
        launch, key = self.launch, (self.index, self.attempt)
        at = list(zip(launch.indices, launch.attempts, strict=True)).index(key)
        claim = launch.claim
        if claim is not None:
            claim = replace(claim, processors=claim.processors[at : at + 1])
        launch = replace(
            launch, indices=[self.index], attempts=[self.attempt], claim=claim,
            restarted=[index for index in launch.restarted if index == self.index],
            devices=launch.devices[at : at + 1], bindings=launch.bindings[at : at + 1],
        )  # fmt: skip
        return AttemptTold(
            *key, launch, self.is_running, self.pid,
            max(0, now_us - self.started_us) if self.is_running else 0, self.wants_suspended,
            self.suspended, self.number, self.is_part,
        )  # fmt: skip

    def take_signal(self, count: int, number: int) -> Signal | Checkpoint:
        """Note what somebody asked for, and return it."""
        self.number, self.number_signal = count, number
        if not is_checkpoint(number):
            self.signalled = count, number
        return self.request(number, count)

    def request(self, number: int, count: int) -> Signal | Checkpoint:
        """Return what somebody asked for as a signal."""
        if is_checkpoint(number):
            return Checkpoint(self.launch, *self.key, wants_end(number), is_forced(number), count)
        return Signal(*self.key, number, count=count)


def by_own_clock(launch: Launch, now_us: Micros) -> Launch:
    """Return a launch that is told now, with when the warning before its deadline is due here."""
    if not launch.warning_in_us:
        return launch
    return replace(launch, warning_at_us=now_us + launch.warning_in_us)


def is_ordered(live: Live, actions: Iterable[Action]) -> bool:
    """Whether an attempt has just been ordered to start."""
    return any(
        isinstance(one, Spawn)
        and one.launch is live.launch
        and (live.index, live.attempt) in one.elements
        for one in actions
    )


class Over(NamedTuple):
    """An attempt that is over and not acknowledged."""

    end: AttemptEnded
    """Without ages."""
    started_us: Micros
    """0: it never ran."""
    ended_us: Micros
    has_directory: bool
    """Whether the shepherd knows of it, so that it must be told to forget."""

    def aged(self, now_us: Micros) -> AttemptEnded:
        """Return the end with its ages as of now."""
        end = self.end
        return AttemptEnded(
            end.job, end.index, end.attempt, end.exit_code, end.signal, end.cause, end.host_fault,
            end.detail, max(0, now_us - self.started_us) if self.started_us else 0,
            max(0, now_us - self.ended_us), end.user_us, end.system_us, end.max_mem_kib,
            end.max_processes, end.max_threads, end.post,
        )  # fmt: skip


def over_of(one: Ended, cause: EndCause, limits: ProcessLimits = NO_LIMITS) -> Over:
    """Return what the shepherd's word about an end means.

    Args:
        one: Its word.
        cause: What was decided here.
        limits: Of the job: the kernel itself ends a process that has used its CPU time.
    """
    found = EndCause(one.cause) or cause
    if not found and one.out_of_memory:
        found = EndCause.MEMLIMIT
    if not found and limits.cpu_us and ending.XCPU in (one.signal, one.exit_code - 128):
        used_us = one.user_us + one.system_us
        found = EndCause.CPULIMIT if used_us * _TICKS_OFF >= limits.cpu_us else found
    end = AttemptEnded(
        one.job, one.index, one.attempt, exit_code=one.exit_code, signal=one.signal, cause=found,
        host_fault=one.host_fault, detail=one.detail, user_us=one.user_us,
        system_us=one.system_us, max_mem_kib=one.max_mem_kib, max_processes=one.max_processes,
        max_threads=one.max_threads, post=one.post,
    )  # fmt: skip
    return Over(end, one.started_us, one.ended_us, has_directory=True)


def never_started(key: Key, cause: EndCause, now_us: Micros) -> Over:
    """Return the end of an attempt that was to be ended before it began."""
    return Over(AttemptEnded(*key, cause=cause), 0, now_us, has_directory=False)
