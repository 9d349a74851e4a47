"""The worker's side of remote tasks in a world: what `xce.worker.remote`, `part_desk` and
`launch_desk` do on an event loop, with the same machines below.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from xce.model.effect import Launch
from xce.model.ids import SECOND_US, Micros
from xce.model.task import (
    EndFile,
    EndTask,
    FeedTask,
    HoldPart,
    PartSeen,
    ReadFile,
    ReadTask,
    SignalTask,
    StartTask,
    TaskFault,
    TaskOrder,
    WriteFile,
)
from xce.net import message as m
from xce.sim.shepherd import Shepherd
from xce.sim.starter import LOST_CODE, OwnTask, Told
from xce.worker.action import Action, Key, Led
from xce.worker.core import HostState
from xce.worker.parts import EARLIER

RETRY_FIRST_US: Final = SECOND_US // 5
RETRY_MAX_US: Final = 5 * SECOND_US
LEAD_US: Final = 20 * SECOND_US
START_US: Final = 25 * SECOND_US
READ_US: Final = 15 * SECOND_US
_AWAY: Final = m.TaskPiece(0, TaskFault.AWAY, "it cannot be reached")
Then: TypeAlias = Callable[[m.TaskPiece], object]


class Shell(Protocol):
    """What this needs of a worker."""

    core: HostState

    @property
    def shepherd(self) -> Shepherd | None:
        """The shepherd that it knows."""
        ...

    @property
    def now_us(self) -> Micros:
        """The time."""
        ...

    def after(self, span_us: Micros, call: Callable[..., object], *args: object) -> None:
        """Have a call made later."""
        ...

    def carry_out(self, actions: Sequence[Action]) -> None:
        """Do what the machine wants done."""
        ...

    def say(self, message: m.Message) -> bool:
        """Send a message to the controller; False: there is none now."""
        ...

    def seam(self, name: str) -> None:
        """Come to a place where it may be killed."""
        ...


class _Hold:
    """A part that is held as it shall be."""

    def __init__(self, order: HoldPart) -> None:
        self.order = order


class _Waiting(NamedTuple):
    ask_id: int
    key: Key
    seen: PartSeen


class Remote:
    """Remote tasks of one life of a worker: those that it leads and those that it has."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._parts = shell.core.parts
        self._last = 0
        self._asked: dict[int, Then] = {}
        self._leading: dict[tuple[Key, str], list[Callable[[], object]]] = {}
        self._holds: dict[tuple[Key, str], _Hold] = {}
        self._waiting: list[_Waiting] = []
        self._given: dict[int, int] = {}
        """What the shepherd was asked and has not answered, by numbers of our own."""
        self._numbers = 0

    # What is asked of other hosts.

    def _ask(self, key: Key, host: str, order: TaskOrder, then: Then) -> None:
        self._last += 1
        number = self._last
        self._asked[number] = then
        if not self._shell.say(m.TaskAsk(number, host, *key, order)):
            del self._asked[number]
            self._shell.after(0, then, _AWAY)

    def _ask_until(
        self, key: Key, host: str, order: TaskOrder, then: Then, *, patience_us: Micros = 0,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:  # fmt: skip
        """Ask again and again while the host is away; 0: without end."""
        shell = self._shell
        until_us = shell.now_us + patience_us
        is_settled = False

        def settle(piece: m.TaskPiece) -> None:
            nonlocal is_settled
            if not is_settled and is_wanted():
                is_settled = True
                then(piece)

        def ask(pause_us: Micros) -> None:
            def answered(piece: m.TaskPiece) -> None:
                if piece.fault is TaskFault.AWAY:
                    shell.after(pause_us, ask, min(2 * pause_us, RETRY_MAX_US))
                else:
                    settle(piece)

            if not is_settled and is_wanted():
                self._ask(key, host, order, answered)

        ask(RETRY_FIRST_US)
        if patience_us:
            shell.after(until_us - shell.now_us, settle, _AWAY)

    def take(self, piece: m.TaskPiece) -> None:
        """Take an answer."""
        then = self._asked.pop(piece.id, None)
        if then is not None:
            self._shell.seam("task answered")
            then(piece)

    def take_led(self, event: Led) -> None:
        """Note that something is written down."""
        place = ((event.job, event.index, event.attempt), event.host)
        for then in self._leading.pop(place, ()):
            then()

    def leave_controller(self) -> None:
        """Note that nothing that was asked will be answered."""
        asked, self._asked = self._asked, {}
        self._waiting.clear()
        self._given.clear()
        for then in asked.values():
            self._shell.after(0, then, _AWAY)

    def _lead(self, key: Key, host: str, then: Callable[[str], object]) -> None:
        """Have it written down that a host may have a part."""
        lead = self._parts.lead(key, host)
        place = (key, host)
        if isinstance(lead, str):
            then(lead)
            return
        if lead is not None:
            self._leading[place] = []
            self._shell.carry_out([lead])
        if place not in self._leading:
            then("")
            return
        is_settled = False

        def settle(trouble: str) -> None:
            nonlocal is_settled
            if not is_settled:
                is_settled = True
                then(trouble)

        self._leading[place].append(lambda: settle(""))
        self._shell.after(LEAD_US, settle, "this host's shepherd does not answer")

    def look(self) -> None:
        """Tell hosts how their parts shall be, and first hosts how parts are, if that is new."""
        for one in [one for one in self._waiting if self._parts.seen(one.key) != one.seen]:
            self._answer(one)
        wanted = self._parts.wanted()
        if not wanted and not self._holds:
            return
        places = {(key, host): hold for key, host, hold in wanted}
        for place, order in places.items():
            known = self._holds.get(place)
            if order.step:
                # It ends: what was not written down by now never begins there.
                self._leading.pop(place, None)
            if place in self._leading or (known is not None and known.order == order):
                continue
            self._holds[place] = _Hold(order)
            self._hold(place, self._holds[place])
        for place in [place for place in self._holds if place not in places]:
            del self._holds[place]

    def _hold(self, place: tuple[Key, str], hold: _Hold) -> None:
        key, host = place

        def then(piece: m.TaskPiece) -> None:
            seen = PartSeen(is_gone=True) if piece.fault else piece.part
            assert seen is not None
            actions = self._parts.take_word(key, host, seen, self._shell.now_us)
            if seen.is_gone:
                self._holds.pop(place, None)
                self._shell.seam("part gone")
            self._shell.carry_out(actions)
            if not seen.is_gone:
                self._hold(place, hold)

        self._ask_until(
            key, host, hold.order, then, is_wanted=lambda: self._holds.get(place) is hold
        )

    # What processes here ask for.

    def begin(self, key: Key, task: OwnTask) -> None:
        """Start a task, or follow one that was started before."""
        if task.is_started:
            self._follow(key, task)
            return

        def led(trouble: str) -> None:
            if trouble:
                task.tell(Told.FAILED, LOST_CODE)
                return
            self.look()
            self._shell.seam("part led")
            self._ask_until(key, task.host, order, started, patience_us=START_US)

        def started(piece: m.TaskPiece) -> None:
            if piece.fault or piece.task is None:
                task.tell(Told.FAILED, LOST_CODE)
                if piece.fault is TaskFault.AWAY:
                    self._end(key, task)  # it may be started all the same
                return
            task.tell(Told.STARTED)
            self._follow(key, task)

        order = StartTask(task.name, task.argv, (), b"/", 0o022, has_input=False)
        self._lead(key, task.host, led)

    def _follow(self, key: Key, task: OwnTask) -> None:
        def read(piece: m.TaskPiece) -> None:
            if piece.fault or piece.task is None:
                task.tell(Told.FAILED, LOST_CODE)
            elif piece.task.is_over:
                task.tell(Told.OVER, piece.task.code)
                forget = EndTask(task.name)
                self._ask_until(key, task.host, forget, lambda _: None, patience_us=START_US)
            else:
                self._follow(key, task)

        self._ask_until(key, task.host, ReadTask(task.name, 0, 0, 1, READ_US), read)

    def signal(self, key: Key, task: OwnTask, number: int) -> None:
        """Send a signal to a task."""
        order = SignalTask(task.name, number)
        self._ask_until(key, task.host, order, lambda _: None, patience_us=START_US)

    def leave(self, key: Key, tasks: list[OwnTask]) -> None:
        """Kill the tasks of a process that has gone."""
        for task in tasks:
            self._end(key, task)

    def _end(self, key: Key, task: OwnTask) -> None:
        def then(piece: m.TaskPiece) -> None:
            if not piece.fault and piece.task is not None and not piece.task.is_over:
                self._shell.after(SECOND_US, self._end, key, task)

        self._ask_until(key, task.host, EndTask(task.name), then)

    # What other hosts ask.

    def _own_launch(self, key: Key) -> Launch | None:
        """Return what is known here of a part of what was taken up again; None: nothing."""
        live = self._shell.core.live_of(key)
        return live.launch if live is not None and live.is_part else None

    def serve(self, ask: m.TaskAsk) -> None:
        """Do what a first host asks."""
        shell, key = self._shell, (ask.job, ask.index, ask.attempt)
        match ask.order:
            case StartTask():
                launch = ask.launch or self._own_launch(key)
                if launch is None:
                    fault = TaskFault.REFUSED
                    shell.say(m.TaskPiece(ask.id, fault, "nobody says whose it is"))
                    return
                actions, trouble = shell.core.join_part(launch, *key[1:], shell.now_us)
                shell.carry_out(actions)
                shell.seam("part joined")
                if trouble:
                    fault = TaskFault.AWAY if trouble == EARLIER else TaskFault.OVER
                    shell.say(m.TaskPiece(ask.id, fault, trouble))
                    return
                self._give(ask.id, key, ask.order)
            case HoldPart() as order:
                before = self._parts.seen(key)
                actions = self._parts.hold(key, order, shell.now_us)
                seen = self._parts.seen(key)
                one = _Waiting(ask.id, key, before)
                self._waiting.append(one)
                shell.after(order.wait_us, self._answer, one)
                if seen.is_gone or (seen.cause and not order.step):
                    self._answer(one)
                shell.carry_out(actions)
            case ReadTask() | FeedTask() | SignalTask() | EndTask() as order:
                self._give(ask.id, key, order)
            case ReadFile() | WriteFile() | EndFile():
                raise TypeError("no job of a world copies files")

    def _answer(self, one: _Waiting) -> None:
        if one in self._waiting:
            self._waiting.remove(one)
            self._shell.say(m.TaskPiece(one.ask_id, part=self._parts.seen(one.key)))

    def _give(self, ask_id: int, key: Key, order: TaskOrder) -> None:
        """Let the shepherd carry out what is asked of a task."""
        shepherd = self._shell.shepherd
        if shepherd is None:
            self._shell.say(m.TaskPiece(ask_id, TaskFault.AWAY, "the host is just starting"))
            return
        self._numbers += 1
        number = self._numbers
        self._given[number] = ask_id

        def answer(piece: m.TaskPiece) -> None:
            self._shell.after(20, self._pass_on, number, piece)

        shepherd.after(20, shepherd.serve, key, order, answer)

    def _pass_on(self, number: int, piece: m.TaskPiece) -> None:
        ask_id = self._given.pop(number, None)
        if ask_id is not None:
            self._shell.say(m.TaskPiece(ask_id, piece.fault, piece.text, piece.task))

    def give_up(self) -> None:
        """Note that another shepherd has come: the one that was asked will not answer."""
        given, self._given = self._given, {}
        for ask_id in given.values():
            self._shell.say(m.TaskPiece(ask_id, TaskFault.AWAY, "another shepherd came"))
