"""What others ask of this host's shepherd: output, terminals, tasks; and who gets which answer."""

import base64
import os
from collections.abc import Callable
from typing import Final, TypeAlias

from xce.model.job import Owner
from xce.model.task import (
    EndTask,
    FeedTask,
    HoldPart,
    ReadTask,
    SignalTask,
    StartTask,
    TaskFault,
    TaskOrder,
    TaskSeen,
)
from xce.net import message as m
from xce.worker import order as o
from xce.worker import streams
from xce.worker.accounts import Accounts
from xce.worker.action import Answer, Key, Piece, TaskTold, TerminalRead, Uses
from xce.worker.link import Shepherding
from xce.worker.store import Store

_READ_MAX: Final = 1024 * 1024
_USES_SINCE: Final = 3
"""What `Shepherding.orders` is since shepherds tell what attempts use."""
AGAIN: Final = "the host's shepherd was restarted; try again"

Say: TypeAlias = Callable[[m.Message], object]


class Asks:
    """Orders that a shepherd has yet to answer.

    Args:
        link: The shepherd.
        accounts: The users of this host.
        store: Knows where the directories of attempts are.
        say: Sends an answer to the controller, which passes it on.
    """

    def __init__(self, link: Shepherding, accounts: Accounts, store: Store, say: Say) -> None:
        self._link = link
        self._accounts = accounts
        self._store = store
        self._say = say
        self._last = 0
        self._reads: dict[int, int] = {}
        self._terminals: dict[int, int] = {}
        self._tasks: dict[int, int] = {}
        self._uses: dict[int, int] = {}

    def read(self, ask: m.ReadOutput) -> None:
        """Let the shepherd read a piece of a job's output, as the job's user."""
        if not self._link.is_ready:
            text = f"host {ask.host} is just starting; try again"
            self._say(m.OutputChunk(ask.id, b"", 0, text))
            return
        path = ""
        if ask.path:
            path = streams.expand_path(ask.path, job=ask.job, index=ask.index)
            cwd = streams.expand_path(ask.cwd, job=ask.job, index=ask.index)
            path = os.path.join(cwd, path)  # noqa: PTH118 - pathlib would drop a last slash
        elif ask.stream == "roles":
            path = f"{self._store.own_directory(ask.job, ask.index, ask.attempt)}/roles"
        suffix = "err" if ask.stream == "stderr" else "out"
        owner = Owner(ask.user, ask.uid, ask.gid)
        account = self._accounts.known(owner)
        groups = account.groups if account is not None else (ask.gid,)
        number = self._note(self._reads, ask.id)
        order = o.ReadOrder(
            number, (ask.job, ask.index, ask.attempt), path, f"{ask.job}.{suffix}",
            (ask.uid, ask.gid, groups), ask.offset, min(ask.limit, _READ_MAX),
        )  # fmt: skip
        self._link.send(o.OrderFrame([order], {}))

    def serve_terminal(self, ask: m.TerminalAsk) -> None:
        """Let the shepherd carry out what is asked of a terminal."""
        if not self._link.is_ready:
            self._say(m.TerminalPiece(ask.id, 0, b"", error="just starting; try again"))
            return
        number = self._note(self._terminals, ask.id)
        order = o.TerminalOrder(
            number, (ask.job, ask.index, ask.attempt), ask.offset, ask.limit, ask.wait_us,
            ask.place, base64.b64encode(ask.typed).decode(), ask.is_end, ask.rows, ask.columns,
            ask.hangs_up,
        )  # fmt: skip
        self._link.send(o.OrderFrame([order], {}))

    def serve_task(
        self, ask_id: int, key: Key, order: TaskOrder, start: o.StartShared | None = None
    ) -> None:
        """Let the shepherd carry out what is asked of a task; ``start``: what it shall start."""
        if not self._link.is_ready:
            self._say(m.TaskPiece(ask_id, TaskFault.AWAY, "the host is just starting"))
            return
        fields = task_fields(order, start)
        number = self._note(self._tasks, ask_id)
        self._link.send(o.OrderFrame([o.TaskOrder(number, key, fields)], {}))

    def read_usage(self, ask: m.ReadUsage) -> None:
        """Let the shepherd tell what attempts use."""
        if not self._link.is_ready:
            self._say(m.HostUsage(ask.id, error=f"host {ask.host} is just starting"))
        elif self._link.orders < _USES_SINCE:
            text = f"the shepherd of host {ask.host} is of an earlier release"
            self._say(m.HostUsage(ask.id, error=text))
        else:
            order = o.UsesOrder(self._note(self._uses, ask.id))
            self._link.send(o.OrderFrame([order], {}))

    def take(self, event: Answer) -> None:
        """Pass on an answer."""
        match event:
            case Piece():
                ask_id = self._reads.pop(event.id, None)
                content = base64.b64decode(event.content)
                if ask_id is not None:
                    self._say(m.OutputChunk(ask_id, content, event.size, event.error))
            case TerminalRead():
                ask_id = self._terminals.pop(event.id, None)
                if ask_id is not None:
                    self._say(
                        m.TerminalPiece(
                            ask_id, event.offset, base64.b64decode(event.content), event.taken,
                            event.is_over, event.error,
                        )
                    )  # fmt: skip
            case Uses(number, rows):
                ask_id = self._uses.pop(number, None)
                if ask_id is not None:
                    self._say(m.HostUsage(ask_id, rows))
            case TaskTold():
                ask_id = self._tasks.pop(event.id, None)
                if ask_id is not None:
                    self._say(_piece_of(ask_id, event))

    def give_up(self) -> None:
        """Note that another shepherd has come: the one that was asked will not answer."""
        for ask_id in self._reads.values():
            self._say(m.OutputChunk(ask_id, b"", 0, AGAIN))
        for ask_id in self._terminals.values():
            self._say(m.TerminalPiece(ask_id, 0, b"", error=AGAIN))
        for ask_id in self._tasks.values():
            self._say(m.TaskPiece(ask_id, TaskFault.AWAY, AGAIN))
        for ask_id in self._uses.values():
            self._say(m.HostUsage(ask_id, error=AGAIN))
        self.leave_controller()

    def leave_controller(self) -> None:
        """Note that who asked hears no answer any more.

        Another controller counts anew: what is answered late would be taken for the answer to what
        it asks.
        """
        for asked in (self._reads, self._terminals, self._tasks, self._uses):
            asked.clear()

    def _note(self, asked: dict[int, int], ask_id: int) -> int:
        self._last += 1
        asked[self._last] = ask_id
        return self._last


def task_fields(
    order: TaskOrder, start: o.StartShared | None
) -> tuple[str | int | bool | o.StartShared, ...]:
    """Return an order in the shepherd's form."""
    match order:
        case StartTask(name):
            assert start is not None
            return ("start", name, start)
        case ReadTask():
            return (
                "read", order.name, order.out_from, order.err_from, order.limit, order.wait_us,
            )  # fmt: skip
        case FeedTask():
            content = base64.b64encode(order.content).decode()
            return ("feed", order.name, order.place, content, order.is_end)
        case SignalTask():
            return ("signal", order.name, order.signal)
        case EndTask(name):
            return ("end", name)
        case HoldPart():
            raise TypeError("a part is held by the worker")


def _piece_of(ask_id: int, told: TaskTold) -> m.TaskPiece:
    if told.fault:
        return m.TaskPiece(ask_id, TaskFault(told.fault), told.text)
    seen = TaskSeen(
        told.pid, told.out_from, base64.b64decode(told.out), told.err_from,
        base64.b64decode(told.err), told.taken, told.is_over, told.code,
    )  # fmt: skip
    return m.TaskPiece(ask_id, task=seen)
