"""When a snapshot is made, and when the journal before it is trimmed (decision X-22).

A snapshot is made by a short-lived process beside the controller, never by it.
"""

import asyncio
import contextlib
import json
import sys
import time
from typing import Final

from xce.daemon.blobs import UnnamedBlobs
from xce.daemon.controller_shell import ControllerShell
from xce.daemon.paths import Layout
from xce.daemon.tail import Tail
from xce.journal.interface import JournalTroubleError
from xce.model.ids import Seq

LOOK_S: Final = 5.0


class SnapshotKeeper:
    """Starts the snapshot process when the tail has grown long, and trims behind it."""

    def __init__(self, shell: ControllerShell, layout: Layout) -> None:
        self._shell = shell
        self._layout = layout
        self._task: asyncio.Task[None] | None = None
        self._unnamed = UnnamedBlobs()

    def start(self) -> None:
        """Begin to look at the tail."""
        self._shell.tail = self._load_tail()
        self._task = asyncio.create_task(self._run(), name="snapshots")

    async def close(self) -> None:
        """Stop; a snapshot under way is given up."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        shell = self._shell
        while True:
            seen = shell.tail
            await asyncio.sleep(LOOK_S)
            if shell.tail.is_long(len(shell.state.jobs), is_quiet=shell.tail == seen):
                await self._make()

    async def _make(self) -> None:
        shell, log = self._shell, self._shell.log
        covered = shell.tail
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-m", "xce.daemon.snapshot", "--dir", str(self._layout.root),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            said, _ = await process.communicate()
        except asyncio.CancelledError:
            process.terminate()
            raise
        if process.returncode != 0:
            log.warning("snapshot-failed", extra={"status": process.returncode})
            return
        gone = self._unnamed.note(json.loads(said), time.monotonic())
        if gone:
            shell.forget_blobs(gone)
            log.info("blobs-forgotten", extra={"count": len(gone)})
        shell.tail = shell.tail.without(covered)
        seq = self._newest_seq()
        # History has a durable cursor; the rest begins with the snapshot.
        before = min(seq, shell.history_seq) + 1
        shell.trim(before)
        log.info("snapshot-made", extra={"seq": seq, "trimmed_before": before})

    def _load_tail(self) -> Tail:
        """Return what stands behind the newest snapshot."""
        seq, journal = self._newest_seq(), self._shell.journal
        try:
            return Tail(self._shell.desk.durable_seq - seq, journal.tail_bytes(seq))
        except JournalTroubleError:
            return Tail(self._shell.desk.durable_seq - seq, 0)

    def _newest_seq(self) -> Seq:
        """Return the entry of the newest snapshot, without reading it; 0: there is none."""
        try:
            return max(self._shell.journal.snapshot_seqs(), default=0)
        except JournalTroubleError:
            return 0
