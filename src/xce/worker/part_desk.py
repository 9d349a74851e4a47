"""Parts of attempts that other hosts lead: what their first hosts ask, through the controller."""

import asyncio
import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeAlias

import msgspec

from xce.model.effect import Launch
from xce.model.ids import Index, Micros
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
    WriteFile,
)
from xce.net import message as m
from xce.step.environment import own_devices
from xce.worker import order as o
from xce.worker.accounts import Accounts, NoAccountError
from xce.worker.action import Action, Key, SpawnPart
from xce.worker.asks import Asks, Say
from xce.worker.bindings import binding_environment, binding_order
from xce.worker.core import HostState
from xce.worker.environ import MPS_DIRECTORIES, Account
from xce.worker.gpus import daemon_names, gpu_environment
from xce.worker.launch_command import launch_programs
from xce.worker.mps import mps_command, quit_command, share_order
from xce.worker.parts import EARLIER
from xce.worker.process_limits import limited_command
from xce.worker.ranks import slots_by_host

_FIRST_HOSTS: Final = re.compile(
    r"XCE_LAUNCH_\w*|XCE_ATTEMPT_MARK|XCE_JOB_HOST_DIR|LS_JOBPID|(?:CUDA|ROCR)_VISIBLE_DEVICES\w*"
    r"|LSB_BIND_\w*|RM_CPU_TASK\d+|XCE_BIND_KIND|XCE_GPU_MPS|NVIDIA_VISIBLE_DEVICES|CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
)
"""What is true on the first host only."""
_NOTES: Final = msgspec.json.Encoder()
CarryOut: TypeAlias = Callable[[Iterable[Action], Micros], object]


class _Holding(NamedTuple):
    ask_id: int
    key: Key
    seen: PartSeen
    timer: asyncio.TimerHandle


class PartDesk:
    """Serves the first hosts of attempts.

    Args:
        host: This host.
        state: Its attempts.
        asks: The way to the shepherd.
        accounts: The users of this host.
        carry_out: Does what the state wants done.
        say: Sends an answer to the controller, which passes it on.
        clock_us: The monotonic clock.
    """

    def __init__(
        self, host: str, state: HostState, asks: Asks, accounts: Accounts, carry_out: CarryOut,
        say: Say, clock_us: Callable[[], Micros],
    ) -> None:  # fmt: skip
        self._host = host
        self._state = state
        self._asks = asks
        self._accounts = accounts
        self._carry_out = carry_out
        self._say = say
        self._clock_us = clock_us
        self._holding: list[_Holding] = []
        self._lookups: set[asyncio.Task[None]] = set()

    def serve(self, ask: m.TaskAsk) -> None:
        """Do what a first host asks."""
        key = (ask.job, ask.index, ask.attempt)
        match ask.order:
            case StartTask():
                launch = ask.launch or self._own_launch(key)
                if launch is None:
                    self._say(m.TaskPiece(ask.id, TaskFault.REFUSED, "nobody says whose it is"))
                    return
                task = asyncio.get_running_loop().create_task(self._start(ask, launch, key))
                self._lookups.add(task)
                task.add_done_callback(self._lookups.discard)
            case HoldPart():
                self._hold(ask.id, key, ask.order)
            case ReadTask() | FeedTask() | SignalTask() | EndTask():
                self._asks.serve_task(ask.id, key, ask.order)
            case ReadFile() | WriteFile() | EndFile():
                raise TypeError("a file is no part of an attempt")

    def _own_launch(self, key: Key) -> Launch | None:
        """Return what is known here of a part; None: there is none here."""
        live = self._state.live_of(key)
        return live.launch if live is not None and live.is_part else None

    def look(self) -> None:
        """Answer those who wait for news of a part, where there are any."""
        for one in list(self._holding):
            if self._state.parts.seen(one.key) != one.seen:
                self._answer(one)

    def part_order(self, action: SpawnPart) -> o.PartOrder | None:
        """Return the order that makes the place of a part; None: its user is not known here."""
        launch = action.launch
        account = self._accounts.known(launch.owner)
        if account is None:
            return None
        shared = o.PartShared(
            note=_NOTES.encode(launch).decode(), uid=account.uid, gid=account.gid,
            groups=account.groups, limit_kib=launch.spec.mem_limit_kib,
            is_counted=launch.spec.limits.is_counted,
            last=quit_command(launch, action.index, self._host),
            share=share_order(launch, action.index, self._host, account.home),
        )  # fmt: skip
        return o.PartOrder((launch.job, action.index, action.attempt), shared)

    async def _start(self, ask: m.TaskAsk, launch: Launch, key: Key) -> None:
        assert isinstance(ask.order, StartTask)
        account = self._accounts.known(launch.owner)
        if account is None:
            loop = asyncio.get_running_loop()
            try:
                account = await loop.run_in_executor(None, self._accounts.load, launch.owner)
            except NoAccountError as error:
                self._say(m.TaskPiece(ask.id, TaskFault.REFUSED, str(error)))
                return
        actions, trouble = self._state.join_part(launch, key[1], key[2], self._clock_us())
        self._carry_out(actions, self._clock_us())
        if trouble:
            fault = TaskFault.AWAY if trouble == EARLIER else TaskFault.OVER
            self._say(m.TaskPiece(ask.id, fault, trouble))
            return
        start = o.StartShared(
            argv=mps_command(
                limited_command([_text(word) for word in ask.order.argv], launch.spec.limits),
                launch, key[1], self._host,
            ),
            env=part_environment(launch, key[1], self._host, account, ask.order.env),
            cwd=_text(ask.order.cwd), umask=ask.order.umask, has_input=ask.order.has_input,
            binding=binding_order(launch, key[1], entry_of(launch, self._host)),
        )  # fmt: skip
        self._asks.serve_task(ask.id, key, ask.order, start)

    def _hold(self, ask_id: int, key: Key, order: HoldPart) -> None:
        before = self._state.parts.seen(key)
        actions = self._state.parts.hold(key, order, self._clock_us())
        seen = self._state.parts.seen(key)
        loop = asyncio.get_running_loop()
        timer = loop.call_later(order.wait_us / 1e6, self._run_out, ask_id)
        one = _Holding(ask_id, key, before, timer)
        self._holding.append(one)
        if seen.is_gone or not order.wait_us or (seen.cause and not order.step):
            self._answer(one)
        self._carry_out(actions, self._clock_us())

    def _run_out(self, ask_id: int) -> None:
        for one in list(self._holding):
            if one.ask_id == ask_id:
                self._answer(one)

    def _answer(self, one: _Holding) -> None:
        one.timer.cancel()
        if one in self._holding:
            self._holding.remove(one)
            self._say(m.TaskPiece(one.ask_id, part=self._state.parts.seen(one.key)))

    def leave_controller(self) -> None:
        """Note that who asked hears no answer any more."""
        for one in self._holding:
            one.timer.cancel()
        self._holding.clear()
        for task in self._lookups:
            task.cancel()


def part_environment(
    launch: Launch, index: Index, host: str, account: Account, given: Iterable[bytes]
) -> dict[str, str]:
    """Return the environment of a task on a host that is not its job's first.

    Args:
        launch: The job.
        index: Which element.
        host: Where the task runs.
        account: The job's user there.
        given: ``NAME=value``, as whoever starts it has them.
    """
    found: dict[str, str] = {}
    for item in given:
        name, equals, value = _text(item).partition("=")
        if name and equals and _FIRST_HOSTS.fullmatch(name) is None:
            found[name] = value
    if daemon_names(launch, index, launch.hosts[0][0]):
        for name in MPS_DIRECTORIES:
            found.pop(name, None)
    entry = entry_of(launch, host)
    found |= gpu_environment(launch, index, entry) | binding_environment(launch, index, entry)
    found |= own_devices(found, found.get("XCE_HOST_TASK_INDEX", "-"))
    found["HOME"], found["SHELL"] = account.home, account.shell
    found["USER"] = found["LOGNAME"] = account.name
    found["HOSTNAME"] = found["XCE_LAUNCH_HOST"] = host
    found |= launch_programs()
    found["XCE_HOST_NTASKS"] = str(slots_by_host(launch).get(host, 0))
    return found


def entry_of(launch: Launch, host: str) -> int:
    """Return the place of a host in a launch, which is the first one where it stands apart."""
    return next((place for place, (name, _) in enumerate(launch.hosts) if name == host), 0)


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")
