"""The host state machine: which attempts the controller wants here, and which there are. Pure.

Use: feed it effects (`take_effects`), the shepherd's news (`take_news`), the shepherd's whole list
when a shepherd is (re)found (`take_list`), the time (`tick`, not before `next_due_us`) and
acknowledgements (`acknowledged`); carry out the actions that each returns, in their order. Send
what `reports` gives; call `disconnected` when the connection to the controller is lost, and
`joined` for what to say on a new one. Actions that are lost with a shepherd need not be kept: what
is still wanted is asked for again after the next list.

Rules:

1. A repeat changes nothing. Effects of a lower epoch are refused. A launch of an attempt that is
   known, or older than one that is known, does nothing; a newer one waits until the older is gone.
2. An attempt is started at most once. One that was to be ended before its launch came, or whose end
   was acknowledged, is remembered, so that a late launch does not start it.
3. An end is reported until it is acknowledged, and only then is its run directory removed.
4. A cause is decided before the first signal; the first one stays.
5. The run limit counts run time only: it stands still while the attempt is suspended.
"""

import heapq
from collections.abc import Iterable, Sequence

from xce.model.effect import Effect, Launch, SendSignal, SetLimits, SetSuspended, Terminate
from xce.model.ids import Epoch, Index, Micros
from xce.model.job import EndCause
from xce.model.observation import AttemptSeen
from xce.worker import action as a
from xce.worker import ending
from xce.worker.action import Action, Key, Listing
from xce.worker.attempt import Live, Over, by_own_clock, is_ordered, never_started, over_of
from xce.worker.fence import Fence
from xce.worker.outbox import Outbox, Reports
from xce.worker.parts import EARLIER, GONE, Parts
from xce.worker.past import Past, Place


class HostState:
    """All attempts of one host, as they are wanted and as they are."""

    def __init__(self) -> None:
        self._epoch: Epoch = 0
        self._live: dict[Place, Live] = {}
        self.parts = Parts(self)
        self._waiting: dict[Place, Live] = {}
        """Newer attempts than the living ones, as they were launched."""
        self._outbox = Outbox()
        self._past = Past()
        self._due: list[tuple[Micros, Place]] = []
        self._fence = Fence()

    # The controller's side.

    def take_effects(self, epoch: Epoch, effects: Iterable[Effect], now_us: Micros) -> list[Action]:
        """Take what the controller wants, and return what is to be done for it now."""
        if epoch < self._epoch:
            return []
        self._epoch = epoch
        actions: list[Action] = []
        for effect in effects:
            match effect:
                case Launch():
                    self._launch(effect, now_us, actions)
                case Terminate():
                    self._terminate(effect, now_us, actions)
                case SetSuspended():
                    self._set_suspended(effect, actions)
                case SendSignal():
                    self._send_signal(effect, actions)
                case SetLimits():
                    self._set_limits(effect, now_us, actions)
                case _:
                    self._outbox.identify(effect, self._live, self._waiting)
        return actions

    def meet(self, epoch: Epoch, at_us: Micros) -> bool:
        """Note a controller that welcomes us; False: it is deposed, there was a later one.

        ``at_us``, here and below, is of the clock of `xce.worker.fence`.
        """
        if epoch < self._epoch:
            return False
        self._epoch = epoch
        self._fence.meet(at_us)
        return True

    def contact(self, at_us: Micros) -> list[Action]:
        """Note that the controller was there at that instant or later."""
        self._fence.contact(at_us)
        return self._lease()

    def _lease(self, *, is_news: bool = False) -> list[Action]:
        return self._fence.lease(self._live.values(), is_news=is_news)

    def joined(self) -> tuple[tuple[AttemptSeen, ...], tuple[Key, ...]]:
        """Return the attempts that live here, and those whose end is not acknowledged."""
        seen = [AttemptSeen(*one.key, one.is_running) for one in self._live.values()]
        seen += [AttemptSeen(*one.key, running=False) for one in self._waiting.values()]
        return tuple(seen), tuple(self._outbox.over)

    def is_idle(self) -> bool:
        """Whether nothing lives here, or is to."""
        return not (self._live or self._waiting)

    @property
    def has_reports(self) -> bool:
        """Whether there is something to report."""
        return self._outbox.has_reports

    @property
    def reports_in_flight(self) -> int:
        """How many batches are sent and not acknowledged."""
        return self._outbox.in_flight

    def reports(self, now_us: Micros) -> Reports | None:
        """Return the next batch to send; None: there is nothing to say. It counts as sent."""
        return self._outbox.reports(now_us)

    def acknowledged(self, number: int, now_us: Micros) -> list[Action]:
        """Note that all batches up to ``number`` are durable at the controller."""
        actions: list[Action] = []
        for key, over in self._outbox.acknowledged(number):
            self._past.remember(key, now_us)
            if over.has_directory:
                actions.append(a.Forget(*key, keep=True))
        return actions

    def disconnected(self) -> None:
        """Note that the controller may not have got what was sent and not acknowledged."""
        self._outbox.disconnected()

    # Parts of attempts, see `xce.worker.parts`.

    def live_of(self, key: Key) -> Live | None:
        """Return an attempt that lives here."""
        live = self._live.get(key[:2])
        return live if live is not None and live.attempt == key[2] else None

    def close_part(self, key: Key, now_us: Micros) -> bool:
        """Let a part that is not here never be; False: it is here."""
        if self.live_of(key) is not None:
            return False
        self._past.note(key)
        self._past.remember(key, now_us)
        return True

    def is_past(self, key: Key) -> bool:
        """Whether an attempt is over here, as far as this host remembers."""
        return self._past.newest(key[:2]) >= key[2]

    def join_part(
        self, launch: Launch, index: Index, attempt: int, now_us: Micros
    ) -> tuple[list[Action], str]:
        """Have a part of an attempt that another host leads; a text: why there can be none now."""
        place = (launch.job, index)
        live = self._live.get(place)
        if live is None and attempt > self._past.newest(place):
            self._live[place] = self._fence.begin(Live(launch, index, attempt, is_part=True))
            lease = self._lease() if launch.fence_us else []
            return [a.SpawnPart(launch, index, attempt), *lease], ""
        if live is None or live.attempt > attempt or (live.attempt == attempt and live.step):
            return [], GONE
        if live.attempt == attempt:
            return [], "" if live.is_part else GONE
        actions: list[Action] = []
        self.end(live, EndCause.HOST_LOST, now_us, actions, force=True)
        return actions, EARLIER

    # The shepherd's side.

    def take_news(self, news: Iterable[a.News], now_us: Micros) -> list[Action]:
        """Take what happened, and return what is to be done about it now."""
        actions: list[Action] = []
        for one in news:
            match one:
                case a.Ended():
                    self._note_end(one, now_us, actions)
                case a.Started():
                    self._note_start(one)
                case a.MainOver() if (live := self._named(one)) is not None:
                    live.is_posting = True
                    self._schedule(live)
                case a.Suspended():
                    self._note_suspension(one, now_us)
                case a.Frozen() if (live := self._named(one)) is not None:
                    live.note_still(now_us, still=one.frozen, by_lease=True)
                    self._schedule(live)
                case a.Checkpointed() if (live := self._named(one)) is not None:
                    live.saved_us = one.saved_us
                    self._note_outcome(live, one.outcome, now_us, actions)
                case a.Usage():
                    self._note_usage(one, now_us, actions)
                case a.TerminalLost() if (live := self._named(one)) is not None:
                    self.end(live, EndCause.TERMINAL_LOST, now_us, actions)
                case a.Appended():
                    self._outbox.let_say((one.job, one.index, one.attempt))
        return actions

    def take_list(self, listed: Sequence[Listing], now_us: Micros) -> list[Action]:
        """Take all that a shepherd has, and return what it takes to make it what is wanted."""
        actions: list[Action] = []
        for one in listed:
            self._note_present(one, now_us, actions)
        keys = {one.present.key for one in listed}
        for place, live in list(self._live.items()):
            if live.key in keys or is_ordered(live, actions):
                continue
            # A shepherd loses only what has not begun (see its run directories).
            live.is_running = False
            self._outbox.withdraw(live.key)
            if live.is_part and not live.step:
                actions.append(a.SpawnPart(live.launch, live.index, live.attempt))
                continue
            if live.step:
                self._let_be_over(live, never_started(live.key, live.cause, now_us), now_us)
                self._start_waiting(place, actions)
                continue
            actions.append(a.Spawn(live.launch, [(live.index, live.attempt)]))
            if live.wants_suspended:
                actions.append(a.Suspend(*live.key, suspended=True))
        # An earlier shepherd may have heard of limits, and not that they end a lease.
        is_news = any(one.limits for one in self._live.values())
        return [*actions, *self._lease(is_news=is_news)]

    # Time.

    def next_due_us(self) -> Micros | None:
        """Return when `tick` has something to do; None: never, as things are."""
        while self._due:
            due_us, place = self._due[0]
            live = self._live.get(place)
            if live is not None and live.due_us == due_us:
                return due_us
            heapq.heappop(self._due)
        return None

    def tick(self, now_us: Micros) -> list[Action]:
        """Do what is due."""
        actions: list[Action] = []
        while (due_us := self.next_due_us()) is not None and due_us <= now_us:
            _, place = heapq.heappop(self._due)
            live = self._live[place]
            live.due_us = 0
            if not live.step and (early := live.before_limit(now_us)):
                actions += early
                self._schedule(live)
            elif live.step:
                self.go_to_step(live, ending.next_step(live.step), now_us, actions)
            elif live.is_at_limit(now_us):
                self.end(live, EndCause.RUNLIMIT, now_us, actions)
        self._past.let_go(now_us)
        return actions

    # Effects, one by one.

    def _launch(self, launch: Launch, now_us: Micros, actions: list[Action]) -> None:
        elements = []
        launch = by_own_clock(launch, now_us)
        for index, attempt in zip(launch.indices, launch.attempts, strict=True):
            place = (launch.job, index)
            if attempt <= self._past.newest(place):
                continue
            live = self._live.get(place)
            if live is None:
                self._live[place] = self._fence.begin(Live(launch, index, attempt))
                elements.append((index, attempt))
            elif attempt == live.attempt:
                self._outbox.note_start(live)
            elif attempt > live.attempt:
                if (waiting := self._waiting.get(place)) is None or attempt > waiting.attempt:
                    self._waiting[place] = self._fence.begin(Live(launch, index, attempt))
                # The controller gave the older one up, or it would not have placed it anew.
                self.end(live, EndCause.HOST_LOST, now_us, actions)
        if elements:
            actions.append(a.Spawn(launch, elements))
        if launch.fence_us:
            actions += self._lease()

    def _terminate(self, effect: Terminate, now_us: Micros, actions: list[Action]) -> None:
        place, key = (effect.job, effect.index), (effect.job, effect.index, effect.attempt)
        live = self._live.get(place)
        if live is not None and live.attempt == effect.attempt:
            live.forget = live.forget or effect.forget
            live.interval_us = effect.kill_interval_us
            self.end(live, effect.cause, now_us, actions, force=effect.force)
            return
        if place in self._waiting and self._waiting[place].attempt == effect.attempt:
            del self._waiting[place]
        if not effect.forget:
            if key not in self._outbox.over:
                self._past.note(key)
                over = never_started(key, effect.cause, now_us)
                self._outbox.note_end(key, over, ready=True)
            return
        kept = self._outbox.withdraw(key)
        if kept is not None and kept.has_directory:
            actions.append(a.Forget(*key, keep=False))
        self._past.note(key)
        self._outbox.note_gone(key)
        self._past.remember(key, now_us)

    def _set_suspended(self, effect: SetSuspended, actions: list[Action]) -> None:
        live = self._live.get((effect.job, effect.index))
        if live is None or live.attempt != effect.attempt or live.step:
            return
        if live.wants_suspended != effect.suspended:
            live.wants_suspended = effect.suspended
            actions.append(a.Suspend(*live.key, suspended=effect.suspended))
        elif live.suspended == effect.suspended:
            self._outbox.note_suspension(live.key, suspended=effect.suspended)

    def _send_signal(self, effect: SendSignal, actions: list[Action]) -> None:
        if (live := self._named(effect)) is None or effect.number <= live.number:
            return
        actions.append(live.take_signal(effect.number, effect.signal))

    def _set_limits(self, effect: SetLimits, now_us: Micros, actions: list[Action]) -> None:
        live = self._named(effect)
        if live is not None and (limits := live.limits_of(effect)) != live.limits:
            live.set_limits(limits)
            actions.append(a.SetLimit(*live.key, effect.mem_limit_kib, limits))
            self._schedule(live)
            actions += self._lease(is_news=True)

    # Ending.

    def end(
        self, live: Live, cause: EndCause, now_us: Micros, actions: list[Action],
        *, force: bool = False,
    ) -> None:  # fmt: skip
        """Begin to end an attempt, or go on faster."""
        step = ending.STEP_KILL if force else ending.first_step(cause)
        if live.step >= step or live.is_posting:
            return
        live.cause = live.cause or cause
        live.wants_suspended = False
        self.go_to_step(live, step, now_us, actions)

    def go_to_step(self, live: Live, step: int, now_us: Micros, actions: list[Action]) -> None:
        """Send the signal of a step of ending, and note when the next is due."""
        live.step, live.step_us = step, now_us
        actions.append(live.signal())
        self._schedule(live)

    def _schedule(self, live: Live) -> None:
        due_us = live.next_us()
        if due_us != live.due_us:
            live.due_us = due_us
            if due_us:
                heapq.heappush(self._due, (due_us, (live.launch.job, live.index)))

    # News, one by one.

    def _named(self, one: a.News | SendSignal | SetLimits) -> Live | None:
        """Return the living attempt that something is about."""
        live = self._live.get((one.job, one.index))
        return live if live is not None and live.attempt == one.attempt else None

    def _note_start(self, one: a.Started) -> None:
        live = self._named(one)
        if live is None or live.is_running:
            return
        live.is_running = True
        live.pid, live.started_us = one.pid, one.started_us
        self._outbox.note_start(live)
        self._schedule(live)

    def _note_suspension(self, one: a.Suspended, now_us: Micros) -> None:
        live = self._named(one)
        if live is None:
            return
        live.note_still(now_us, still=one.suspended)
        if not live.forget:
            self._outbox.note_suspension(live.key, suspended=one.suspended)
        self._schedule(live)

    def _note_outcome(
        self, live: Live, one: a.Outcome, now_us: Micros, actions: list[Action]
    ) -> None:
        """Say what became of a checkpoint, and end what was only to write it."""
        self._outbox.note_checkpoint(live, one)
        if one.ends and one.is_good:
            self.end(live, EndCause.CHKPNT, now_us, actions, force=True)
        self._schedule(live)

    def _note_usage(self, one: a.Usage, now_us: Micros, actions: list[Action]) -> None:
        live = self._named(one)
        cause = live.overrun(one) if live is not None else EndCause.NONE
        if live is not None and cause:
            self.end(live, cause, now_us, actions)

    def _note_end(self, one: a.Ended, now_us: Micros, actions: list[Action]) -> None:
        live = self._named(one)
        whole = self.parts.whole_end(live, one) if live is not None else None
        if live is not None and whole is not None:
            self.finish(live, whole, now_us, actions)

    def finish(self, live: Live, one: a.Ended, now_us: Micros, actions: list[Action]) -> None:
        """Let an attempt be over: nothing of it is left, here or elsewhere."""
        over = over_of(one, live.cause, live.launch.spec.limits)
        self._let_be_over(live, over, now_us, report=one.wants_report)
        if live.forget:
            actions.append(a.Forget(*live.key, keep=False))
        elif one.wants_report:
            actions.append(a.Report(live.launch, over.aged(now_us), now_us))
        self._start_waiting((one.job, one.index), actions)

    def _let_be_over(self, live: Live, over: Over, now_us: Micros, *, report: bool = False) -> None:
        """Move an attempt from the living to those whose end is to be reported."""
        key = live.key
        del self._live[key[:2]]
        self.parts.forget(live)
        self._past.note(key)
        if live.forget:
            self._outbox.withdraw(key)
            self._outbox.note_gone(key)
            self._past.remember(key, now_us)
        else:
            self._outbox.note_end(key, over, ready=not report)

    def _start_waiting(self, place: Place, actions: list[Action]) -> None:
        live = self._waiting.pop(place, None)
        if live is not None:
            self._live[place] = live
            actions.append(a.Spawn(live.launch, [(live.index, live.attempt)]))
            actions += self._lease() if live.launch.fence_us else []

    # The shepherd's list, one by one.

    def _note_present(self, one: Listing, now_us: Micros, actions: list[Action]) -> None:
        key = one.present.key
        place = key[:2]
        over = self._outbox.over.get(key)
        if over is not None:
            if not self._outbox.is_said(key):
                # The report was ordered from a shepherd that is gone.
                actions.append(a.Report(one.launch, over.aged(now_us), now_us))
            return
        live = self._live.get(place)
        if live is not None and live.attempt == key[2]:
            self._match(live, one.present, now_us, actions)
        elif one.ended is not None and not self._may_have_parts(one.present):
            self._note_strange_end(one, one.ended, now_us, actions)
            return
        else:
            live = self._adopt(one, live, now_us, actions)
        if one.ended is not None:
            self._note_end(one.ended, now_us, actions)
        else:
            self._schedule(live)

    def _may_have_parts(self, present: a.Present) -> bool:
        """Whether an attempt that has ended here may not have ended elsewhere, or is a part."""
        key = present.key
        return (bool(present.parts) or present.is_part) and self._past.newest(key[:2]) != key[2]

    def _note_strange_end(
        self, one: Listing, ended: a.Ended, now_us: Micros, actions: list[Action]
    ) -> None:
        """Note the end of an attempt that is not among the living."""
        place, key = ended.key[:2], ended.key
        if self._past.newest(place) == key[2]:
            # Its end was acknowledged; only the order to forget it was lost.
            actions.append(a.Forget(*key, keep=True))
            return
        self._past.note(key)
        over = over_of(ended, EndCause.NONE, one.launch.spec.limits)
        self._outbox.note_end(key, over, ready=not ended.wants_report)
        if ended.wants_report:
            actions.append(a.Report(one.launch, over.aged(now_us), now_us))

    def _adopt(
        self, one: Listing, other: Live | None, now_us: Micros, actions: list[Action]
    ) -> Live:
        """Take an attempt that this state did not know."""
        present = one.present
        place = (present.job, present.index)
        if other is not None:
            # Only one of an element may live: a newer one waits until this one is gone, an older
            # one is over, or this one would not have been placed.
            if other.attempt > present.attempt:
                self._waiting[place] = other.anew()
            self._outbox.withdraw(other.key)
        live = Live(one.launch, present.index, present.attempt, is_part=present.is_part)
        self._live[place] = live
        live.wants_suspended = bool(present.suspended_us)
        self._match(live, present, now_us, actions)
        return live

    def _match(self, live: Live, present: a.Present, now_us: Micros, actions: list[Action]) -> None:
        """Note how an attempt is, and order again what an earlier shepherd may not have done."""
        if not live.is_running and present.pid:
            self._note_start(a.Started(*live.key, present.pid, present.started_us))
        live.match(present, now_us, actions)
        self._note_outcome(live, present.outcome, now_us, actions)
        self.parts.note(live)
