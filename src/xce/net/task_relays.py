"""Remote tasks, relayed from the worker of an attempt's first host to those of its other hosts.

Who asks and who is asked must be hosts of the attempt as the state has it now, and what is started
is said in the state's own words: a host that was taken over can reach no job that is not its own.
The files of a job's transfers are asked for where it was submitted, and only those.
"""

from collections import deque
from typing import Final

from msgspec.structs import replace

from xce.control.effects import render_part
from xce.control.transfers import find_file_host
from xce.model.effect import Launch
from xce.model.ids import NO_HOST, Seq
from xce.model.job import EndCause
from xce.model.task import (
    PIECE_MAX,
    FeedTask,
    FileOrder,
    ReadFile,
    ReadTask,
    StartTask,
    TaskFault,
    WriteFile,
)
from xce.net import message as m
from xce.net.frame import WireError
from xce.net.relay_table import Peered, RelayTable
from xce.state.cluster import ClusterState

ASKS_MAX: Final = 16_384
"""So much of one asker may be under way: three for each task."""
SINCE: Final = 2
"""The protocol that has remote tasks."""
START_MAX: Final = 3 * 1024 * 1024
"""Longest command line with its environment."""
NAME_MAX: Final = 64


class TaskRelays:
    """What is asked of other hosts and not answered yet: the asker's own numbers."""

    def __init__(self) -> None:
        self._asks: RelayTable[int] = RelayTable(ASKS_MAX)
        self._refusals: deque[tuple[Seq, Peered, m.TaskPiece]] = deque()
        """What is refused for something that is decided and not stored yet."""

    def ask(
        self, asker: Peered, ask: m.TaskAsk, state: ClusterState, *, by: str,
        worker: Peered | None, durable_seq: Seq,
    ) -> None:  # fmt: skip
        """Pass an order on to the worker of its host.

        Args:
            asker: The connection that it came from.
            ask: What is asked.
            state: Where jobs run.
            by: The host whose worker asks.
            worker: The connection of the worker that is asked.
            durable_seq: Up to which entry all is stored.
        """
        refusal = refuse_ask(state, ask, by)
        if refusal is not None:
            self._refuse(asker, replace(refusal, id=ask.id), state.seq, durable_seq)
            return
        if worker is None or not worker.is_open:
            text = f"host {ask.host} is not connected"
            asker.send(m.TaskPiece(ask.id, TaskFault.AWAY, text))
            return
        if worker.protocol < SINCE:
            text = f"host {ask.host} is of a release without remote tasks"
            asker.send(m.TaskPiece(ask.id, TaskFault.REFUSED, text))
            return
        if self._asks.is_full(asker):
            asker.send(m.TaskPiece(ask.id, TaskFault.AWAY, "too much at once"))
            return
        launch = _launch_of(state, ask) if _begins(ask.order) else None
        worker.send(replace(ask, id=self._asks.add(asker, worker, ask.id), launch=launch))

    def _refuse(self, asker: Peered, refusal: m.TaskPiece, seq: Seq, durable_seq: Seq) -> None:
        """Refuse an order, for good: who is told that a host is lost lets its tasks there be."""
        if seq <= durable_seq:
            asker.send(refusal)
        elif len(self._refusals) < ASKS_MAX:
            self._refusals.append((seq, asker, refusal))
        else:
            asker.send(m.TaskPiece(refusal.id, TaskFault.AWAY, "too much at once"))

    def settle(self, durable_seq: Seq) -> None:
        """Tell what is refused for what is stored by now."""
        while self._refusals and self._refusals[0][0] <= durable_seq:
            _, asker, refusal = self._refusals.popleft()
            asker.send(refusal)

    def answer(self, worker: Peered, piece: m.TaskPiece) -> None:
        """Pass an answer back to who asked.

        Raises:
            WireError: The worker was not asked for that.
        """
        found = self._asks.find(worker, piece.id)
        if found is None:
            return
        if piece.task is not None and len(piece.task.out) + len(piece.task.err) > 2 * PIECE_MAX:
            raise WireError("a piece of a task's output is too long")
        if piece.file is not None and len(piece.file.content) > PIECE_MAX:
            raise WireError("a piece of a file is too long")
        self._asks.end(piece.id)
        found.asker.send(replace(piece, id=found.asked))

    def drop(self, gone: Peered) -> None:
        """Note that a connection has ended."""
        self._refusals = deque(one for one in self._refusals if one[1] is not gone)
        for found in self._asks.drop(gone):
            text = "the host's worker is gone"
            found.asker.send(m.TaskPiece(found.asked, TaskFault.AWAY, text))


def refuse_ask(state: ClusterState, ask: m.TaskAsk, by: str) -> m.TaskPiece | None:
    """Return why the worker of a host may not have this done; None: it may."""
    names = state.hosts.names
    attempt = state.attempt_of(ask.job, ask.index)
    key = (ask.job, ask.index, ask.attempt)
    if key in state.hosts.strange.get(state.hosts.number.get(by, NO_HOST), ()):
        # What it has elsewhere is let be as it is itself, until somebody decides.
        return m.TaskPiece(0, TaskFault.AWAY, "the restored journal does not know this attempt")
    if attempt is None or attempt.number != ask.attempt or names[attempt.hosts[0]] != by:
        return m.TaskPiece(0, TaskFault.OVER, f"host {by} does not lead this attempt")
    if not _is_bounded(ask.order):
        return m.TaskPiece(0, TaskFault.REFUSED, "the order is too long")
    number = state.hosts.number.get(ask.host)
    if isinstance(ask.order, FileOrder):
        if number is None:
            text = "the host where the job was submitted is none of this cluster"
            return m.TaskPiece(0, TaskFault.REFUSED, text)
        return None
    if number in attempt.left_out:
        return m.TaskPiece(0, TaskFault.OVER, f"host {ask.host} was lost")
    if number is None or number not in attempt.hosts or ask.host == by:
        text = f"host {ask.host} is none of the job's other hosts"
        return m.TaskPiece(0, TaskFault.REFUSED, text)
    if state.hosts.is_lost[number]:
        return m.TaskPiece(0, TaskFault.OVER, f"host {ask.host} is lost")
    if isinstance(ask.order, StartTask) and attempt.end_cause != EndCause.NONE:
        return m.TaskPiece(0, TaskFault.REFUSED, "the job is being ended")
    return None


def _launch_of(state: ClusterState, ask: m.TaskAsk) -> Launch | None:
    """Return an attempt in the state's words; None: the host that is asked has its own of it.

    What was adopted is what its first host says it is, which is not enough for another one.
    """
    attempt = state.attempt_of(ask.job, ask.index)
    if attempt is not None and attempt.is_adopted and isinstance(ask.order, StartTask):
        return None
    return render_part(state, ask.job, ask.index)


def host_asked(state: ClusterState, ask: m.TaskAsk) -> str:
    """Return the host that has an order done; empty: there is none.

    With an order about a file it is not for who asks to say.
    """
    order = ask.order
    if not isinstance(order, FileOrder):
        return ask.host
    job = state.jobs.get(ask.job)
    position = job.position(ask.index) if job is not None else None
    if job is None or position is None:
        return ""
    return find_file_host(state, state.specs[state.spec_id_at(job, position)], order.transfer)


def _begins(order: object) -> bool:
    """Return whether who carries an order out has to be told of the job."""
    if isinstance(order, ReadFile | WriteFile):
        return order.place == 0
    return isinstance(order, StartTask)


def _is_bounded(order: object) -> bool:
    if isinstance(order, StartTask):
        return (
            0 < len(order.name) <= NAME_MAX
            and bool(order.argv)
            and sum(map(len, (*order.argv, *order.env))) + len(order.cwd) <= START_MAX
        )
    if isinstance(order, FeedTask):
        return len(order.content) <= PIECE_MAX
    if isinstance(order, FileOrder) and not 0 < len(order.name) <= NAME_MAX:
        return False
    if isinstance(order, WriteFile):
        return len(order.content) <= PIECE_MAX and order.place >= 0
    if isinstance(order, ReadFile):
        return 0 < order.limit <= PIECE_MAX and order.place >= 0
    return not isinstance(order, ReadTask) or 0 <= order.limit <= PIECE_MAX
