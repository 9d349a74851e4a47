"""Parts of attempts on other hosts than their first: who leads them, and how they follow. Pure.

The first host of an attempt leads. It knows the hosts that may have a part before they have one
(its run directory says so), tells them how the part shall be (`HoldPart`), and lets the attempt be
over only when each part is gone, or was given up by the controller, which then has it ended itself.
On the other host the part is an attempt of its own, of which the controller hears nothing.
"""

from collections import OrderedDict
from functools import reduce
from typing import Final, NamedTuple, Protocol

from msgspec.structs import replace

from xce.model.ids import Micros
from xce.model.job import EndCause
from xce.model.task import HoldPart, PartSeen
from xce.worker import ending
from xce.worker.action import Action, Ended, Key, Lead, SetLimit, Signal, Suspend
from xce.worker.attempt import Live

GONE: Final = "what the job had on this host has ended"
EARLIER: Final = "an earlier attempt of the job is still here"
HOLD_US: Final = 60_000_000
"""So long a host may wait before it says that nothing is new."""
_REMEMBERED: Final = 1_000


class Wanted(NamedTuple):
    """How a part on a host shall be."""

    key: Key
    host: str
    hold: HoldPart


class Attempts(Protocol):
    """What parts need of the host state machine."""

    def live_of(self, key: Key) -> Live | None:
        """Return an attempt that lives here."""
        ...

    def is_past(self, key: Key) -> bool:
        """Whether an attempt is over here, as far as this host remembers."""
        ...

    def close_part(self, key: Key, now_us: Micros) -> bool:
        """Let a part that is not here never be; False: it is here."""
        ...

    def end(
        self, live: Live, cause: EndCause, now_us: Micros, actions: list[Action],
        *, force: bool = False,
    ) -> None:  # fmt: skip
        """Begin to end an attempt, or go on faster."""
        ...

    def go_to_step(self, live: Live, step: int, now_us: Micros, actions: list[Action]) -> None:
        """Send the signal of a step of ending, and note when the next is due."""
        ...

    def finish(self, live: Live, one: Ended, now_us: Micros, actions: list[Action]) -> None:
        """Let an attempt be over."""
        ...


class Parts:
    """The parts that this host leads, and those that it has."""

    def __init__(self, attempts: Attempts) -> None:
        self._attempts = attempts
        self._led: dict[Key, Live] = {}
        self._gone: OrderedDict[Key, PartSeen] = OrderedDict()
        """What parts used here that are gone."""

    # On the first host.

    def lead(self, key: Key, host: str) -> Lead | str | None:
        """Have a part on another host: what is to be written down first, or why there can be none.

        None: it is written down already.
        """
        live = self._attempts.live_of(key)
        if live is None or live.is_part or live.own_end is not None or live.step:
            return "the job is being ended"
        if host in live.parts:
            return None
        live.parts.add(host)
        self._led[key] = live
        return Lead(*key, host)

    def note(self, live: Live) -> None:
        """Note an attempt that was found to have parts."""
        if live.parts:
            self._led[live.key] = live

    def wanted(self) -> list[Wanted]:
        """Return how the parts shall be that this host leads."""
        found = []
        for key, live in self._led.items():
            hold = HoldPart(
                live.wants_suspended, *live.signalled, live.cause, live.step,
                live.launch.spec.mem_limit_kib, HOLD_US, live.launch.spec.limits.cpu_us,
            )  # fmt: skip
            found += [Wanted(key, host, hold) for host in sorted(live.parts)]
        return found

    def take_word(self, key: Key, host: str, seen: PartSeen, now_us: Micros) -> list[Action]:
        """Take what a host says of its part."""
        actions: list[Action] = []
        live = self._led.get(key)
        if live is None or host not in live.parts:
            return actions
        if seen.cause and not live.step:
            self._attempts.end(live, seen.cause, now_us, actions)
        if not seen.is_gone:
            live.part_cpu_us[host] = seen.user_us + seen.system_us
            if (cause := live.cpu_overrun()) and not live.step:
                self._attempts.end(live, cause, now_us, actions)
            return actions
        live.parts.discard(host)
        live.part_cpu_us.pop(host, None)
        known = live.part_used.get(host, seen)
        # A host whose worker was restarted meanwhile does not know it any more.
        live.part_used[host] = max(seen, known, key=_cpu_us)
        live.used = reduce(_sum, live.part_used.values(), PartSeen())
        if not live.parts:
            del self._led[key]
            if live.own_end is not None:
                self._attempts.finish(live, _with(live.own_end, live.used), now_us, actions)
        return actions

    def whole_end(self, live: Live, one: Ended) -> Ended | None:
        """Return the end of an attempt with what its parts used; None: it still has parts."""
        if live.is_part:
            self._remember(one)
            return one
        if live.parts:
            live.own_end = one
            live.step = live.step or ending.STEP_KILL
            return None
        return _with(one, live.used)

    def forget(self, live: Live) -> None:
        """Note that an attempt is over."""
        self._led.pop(live.key, None)

    # On the other hosts.

    def hold(self, key: Key, order: HoldPart, now_us: Micros) -> list[Action]:
        """Make a part as it shall be."""
        actions: list[Action] = []
        live = self._attempts.live_of(key)
        if live is None and order.step:
            # What was to be started here before may still be on its way.
            self._attempts.close_part(key, now_us)
        if live is None or not live.is_part:
            return actions
        if order.step > live.step:
            live.cause = live.cause or order.cause
            live.wants_suspended = False
            self._attempts.go_to_step(live, order.step, now_us, actions)
        if order.number > live.number:
            live.number, live.number_signal = order.number, order.signal
            actions.append(Signal(*key, order.signal, count=order.number))
        if not live.step and order.suspended != live.wants_suspended:
            live.wants_suspended = order.suspended
            actions.append(Suspend(*key, suspended=order.suspended))
        spec, wanted = live.launch.spec, (order.mem_limit_kib, order.cpu_limit_us)
        if wanted != (spec.mem_limit_kib, spec.limits.cpu_us):
            limits = (0, order.mem_limit_kib, live.launch.fence_us, order.cpu_limit_us)
            kill_us = live.launch.fence_kill_us
            live.set_limits((*limits, 0, 0, kill_us) if kill_us else limits)
            actions.append(SetLimit(*key, order.mem_limit_kib, live.limits))
        return actions

    def seen(self, key: Key) -> PartSeen:
        """Return how a part is here."""
        live = self._attempts.live_of(key)
        if live is not None and live.is_part:
            return PartSeen(cause=live.cause, user_us=live.cpu_us)
        return self._gone.get(key, PartSeen(is_gone=self._attempts.is_past(key)))

    def _remember(self, one: Ended) -> None:
        self._gone[one.key] = PartSeen(
            True, EndCause.NONE, one.user_us, one.system_us, one.max_mem_kib, one.max_processes,
            one.max_threads,
        )  # fmt: skip
        if len(self._gone) > _REMEMBERED:
            self._gone.popitem(last=False)


def _cpu_us(seen: PartSeen) -> Micros:
    return seen.user_us + seen.system_us


def _sum(one: PartSeen, other: PartSeen) -> PartSeen:
    return PartSeen(
        False, EndCause.NONE, one.user_us + other.user_us, one.system_us + other.system_us,
        one.max_mem_kib + other.max_mem_kib, one.max_processes + other.max_processes,
        one.max_threads + other.max_threads,
    )  # fmt: skip


def _with(end: Ended, used: PartSeen) -> Ended:
    """Return an end with what parts used."""
    return replace(
        end, user_us=end.user_us + used.user_us, system_us=end.system_us + used.system_us,
        max_mem_kib=end.max_mem_kib + used.max_mem_kib,
        max_processes=end.max_processes + used.max_processes,
        max_threads=end.max_threads + used.max_threads,
    )  # fmt: skip
