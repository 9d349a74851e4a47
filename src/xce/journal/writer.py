"""Group commit: a thread that does nothing but make batches durable.

No timer: what was handed in while one commit was being synced is the next one. When the storage
fails, the same bytes are tried again until they are through; nothing is dropped, nothing is
answered meanwhile.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Final

from xce.journal.interface import (
    Append,
    Blob,
    Journal,
    JournalTroubleError,
    StoredBatch,
)
from xce.model.ids import Epoch, Seq

RETRY_FIRST_S: Final = 0.05
RETRY_MAX_S: Final = 2.0
IDLE_S: Final = 0.05
"""So long nothing must have come before the log is tidied."""
TRIM_PAUSE_S: Final = 0.005
"""So long nothing must have come before the next few rows are trimmed."""
GROUP_BYTES_MAX: Final = 32 * 1024 * 1024
"""A commit takes no further batch once it holds so much."""


class _Trim:
    """Drop what lies before an entry, a little at a time."""

    def __init__(self, before: Seq) -> None:
        self.before = before


class _ForgetBlobs:
    """Drop blobs that nothing names."""

    def __init__(self, digests: Sequence[str]) -> None:
        self.digests = digests


class _Close:
    """Nothing comes behind this."""


class CommitThread:
    """The thread that commits; every callback is made through ``call_soon``.

    Args:
        journal: It leads already; from `start` to the end of `close` this thread alone writes.
        epoch: The reign it writes under.
        call_soon: ``loop.call_soon_threadsafe``: carries callbacks to the caller's thread.
        on_durable: Called with the last entry of each commit, in order.
        on_trouble: Called with a text when the storage begins to fail or fails differently, and
            with an empty text when what had failed is through.
        on_fatal: Called once, when the thread has ended: the epoch is lost, the journal is
            damaged, or there is a fault. The process must end.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        epoch: Epoch,
        call_soon: Callable[..., object],
        on_durable: Callable[[Seq], object],
        on_trouble: Callable[[str], object],
        on_fatal: Callable[[BaseException], object],
    ) -> None:
        self._journal = journal
        self._epoch = epoch
        self._call_soon = call_soon
        self._on_durable = on_durable
        self._on_trouble = on_trouble
        self._on_fatal = on_fatal
        self._inputs: queue.SimpleQueue[Append | _Trim | _ForgetBlobs | _Close] = (
            queue.SimpleQueue()
        )
        self._ahead: Append | _Trim | _ForgetBlobs | _Close | None = None
        self._trim_before: Seq = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="xce-commit", daemon=True)

    def start(self) -> None:
        """Begin to commit."""
        self._thread.start()

    def submit(self, batch: StoredBatch, blobs: Sequence[Blob] = ()) -> None:
        """Hand in a batch; it must follow the one handed in before."""
        self._inputs.put(Append(batch, blobs))

    def trim(self, before: Seq) -> None:
        """Drop, in idle moments, the batches that end before entry ``before``."""
        self._inputs.put(_Trim(before))

    def forget_blobs(self, digests: Sequence[str]) -> None:
        """Drop blobs that nothing names any more."""
        self._inputs.put(_ForgetBlobs(digests))

    def close(self, *, timeout_s: float | None = None) -> bool:
        """Commit what was handed in, then end the thread.

        While the storage fails it is tried once more, then given up: nothing of that was
        acknowledged.

        Returns:
            Whether the thread has ended within ``timeout_s``.
        """
        self._closing.set()
        self._inputs.put(_Close())
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while self._step():
                pass
        except BaseException as error:  # noqa: BLE001 - the edge of a thread: it must not die unheard
            self._tell(self._on_fatal, error)

    def _step(self) -> bool:
        """Do one thing; tell whether there may be another."""
        next_input = self._next_input()
        match next_input:
            case Append():
                return self._commit(self._gather(next_input))
            case _Trim():
                self._trim_before = max(self._trim_before, next_input.before)
            case _ForgetBlobs():
                self._try(lambda: self._journal.forget_blobs(next_input.digests))
            case None:
                self._idle()
            case _Close():
                return False
        return True

    def _next_input(self) -> Append | _Trim | _ForgetBlobs | _Close | None:
        """Return what comes next, waiting for it; None: nothing came for a while."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            return ahead
        try:
            return self._inputs.get(timeout=self._patience_s())
        except queue.Empty:
            return None

    def _gather(self, first: Append) -> list[Append]:
        """Return ``first`` and all batches that wait behind it."""
        group = [first]
        size = len(first.batch.content)
        while size < GROUP_BYTES_MAX:
            try:
                following = self._inputs.get_nowait()
            except queue.Empty:
                break
            if not isinstance(following, Append):
                self._ahead = following
                break
            group.append(following)
            size += len(following.batch.content)
        return group

    def _commit(self, group: list[Append]) -> bool:
        """Make a group durable, however often it takes; False: given up, because of `close`."""
        wait_s = RETRY_FIRST_S
        trouble = ""
        while True:
            gives_up = self._closing.is_set()
            try:
                self._journal.append_all(self._epoch, group)
            except JournalTroubleError as error:
                if str(error) != trouble:
                    trouble = str(error)
                    self._tell(self._on_trouble, trouble)
                if gives_up:
                    return False
                self._closing.wait(wait_s)
                wait_s = min(2 * wait_s, RETRY_MAX_S)
                continue
            self._tell(self._on_durable, group[-1].batch.last)
            if trouble:
                self._tell(self._on_trouble, "")
            return True

    def _patience_s(self) -> float | None:
        """Return how long to wait for an input before a chore is done; None: there is no chore."""
        if self._trim_before:
            return TRIM_PAUSE_S
        return IDLE_S if self._journal.is_untidy else None

    def _idle(self) -> None:
        if self._trim_before:
            before = self._trim_before
            if not self._try(lambda: self._journal.trim(before)):
                self._trim_before = 0
        self._journal.tidy()

    def _try(self, chore: Callable[[], bool | None]) -> bool:
        """Do what can as well be done later; trouble with it is left to the next commit."""
        try:
            return bool(chore())
        except JournalTroubleError:
            return False

    def _tell(self, callback: Callable[..., object], *args: object) -> None:
        try:
            self._call_soon(callback, *args)
        except RuntimeError:
            # The loop is closed: nobody is left to be told.
            return
