"""A controller that stands by: follows the journal, and leads when nobody does."""

import gc
import logging
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from xce.journal.interface import (
    EpochLostError,
    Journal,
    JournalHeldError,
    JournalRefusedError,
    JournalTroubleError,
)
from xce.journal.recover import read_entries, recover
from xce.model.errors import CorruptJournalError
from xce.model.ids import Epoch, Seq
from xce.state.apply import apply
from xce.state.cluster import ClusterState
from xce.state.snapshot import load

LOOK_S: Final = 0.25
"""How often it looks for new entries, and whether somebody leads."""


class LeadWatch:
    """Hears, from any thread, that the lead is lost, and passes it on once somebody listens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lost: EpochLostError | None = None
        self._on_lost: Callable[[EpochLostError], object] | None = None

    def note_lost(self, error: EpochLostError) -> None:
        """Note that the lead is lost."""
        with self._lock:
            self._lost = error
            on_lost = self._on_lost
        if on_lost is not None:
            on_lost(error)

    def listen(self, on_lost: Callable[[EpochLostError], object]) -> None:
        """Have ``on_lost`` called when the lead is lost, or now when it is already."""
        with self._lock:
            self._on_lost = on_lost
            lost = self._lost
        if lost is not None:
            on_lost(lost)

    def check(self) -> None:
        """Raise `EpochLostError` when the lead is lost."""
        with self._lock:
            if self._lost is not None:
                raise self._lost


class Lead(NamedTuple):
    """The beginning of a reign."""

    epoch: Epoch
    state: ClusterState
    crc: int
    """Of the last entry in the state."""
    watch: LeadWatch


class StandBy:
    """Follows the journal until nobody leads it, then leads.

    Args:
        journal: Not led yet.
        cluster: The cluster's name, as this machine's configuration has it.
        lease_s: How long a lead lasts that is not renewed.
        log: Where things are told.
        stopping: Set when the process shall end.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        cluster: str,
        lease_s: float,
        log: logging.Logger,
        stopping: threading.Event,
    ) -> None:
        self._journal = journal
        self._cluster = cluster
        self._lease_s = lease_s
        self._log = log
        self._stopping = stopping
        self._state: ClusterState | None = None
        self._seq: Seq = 0
        self._crc = 0
        self._told = ""
        self._may_lead_s = 0.0
        """Not before this monotonic second: after an outage the one who led may renew first."""

    def run(self) -> Lead | None:
        """Return the lead when it is got; None: told to stop.

        Raises:
            XceError: The journal is damaged, refuses us, or the lead was lost while it began.
        """
        while not self._stopping.is_set():
            try:
                lead = self._look()
            except JournalTroubleError as error:
                self._tell("journal-away", str(error))
                self._may_lead_s = time.monotonic() + self._lease_s
            else:
                if lead is not None:
                    return lead
            self._stopping.wait(LOOK_S)
        return None

    def _look(self) -> Lead | None:
        journal = self._journal
        if time.monotonic() >= self._may_lead_s:
            try:
                epoch = journal.lead("controller")
            except JournalHeldError as error:
                self._tell("standing-by", str(error))
            else:
                return self._begin(epoch)
        self._catch_up()
        return None

    def _begin(self, epoch: Epoch) -> Lead | None:
        """Read what the reign before has written to its end."""
        watch = LeadWatch()
        self._journal.keep_lead(watch.note_lost)
        while not self._stopping.is_set():
            watch.check()
            try:
                self._catch_up()
            except JournalTroubleError as error:
                self._tell("journal-away", str(error))
                self._stopping.wait(LOOK_S)
                continue
            assert self._state is not None
            return Lead(epoch, self._state, self._crc, watch)
        return None

    def _catch_up(self) -> None:
        """Take what is stored and not in the state yet."""
        state = self._state
        if state is not None:
            try:
                for entries, crc in read_entries(self._journal, self._seq, self._crc):
                    for entry in entries:
                        apply(state, entry)
                    self._seq, self._crc = entries[-1].seq, crc
            except CorruptJournalError as error:
                # It was trimmed while we slept: begin with the snapshot. Damage shows again there.
                self._log.warning("standby-begins-again", extra={"why": str(error)})
                self._state = None
            else:
                return
        fresh, self._seq, self._crc = recover(
            self._journal, restore=load, empty=ClusterState, apply_entry=apply
        )
        self._check_cluster(fresh)
        self._state = fresh
        # Now, since nobody waits: at a takeover it would take seconds.
        gc.collect()
        gc.freeze()
        self._log.info("standby-warm", extra={"seq": self._seq, "jobs": len(fresh.jobs)})

    def _check_cluster(self, fresh: ClusterState) -> None:
        """Refuse another cluster's journal: its jobs would get our configuration at a takeover.

        Later the name may change: it is put in effect by the one who leads.
        """
        name, cluster, self._cluster = fresh.config.cluster_name, self._cluster, ""
        if cluster and fresh.config_version and name != cluster:
            raise JournalRefusedError(
                f"{self._journal.place()}: holds the journal of cluster {name!r}, and here "
                f"cluster_name is {cluster!r}: name another database; or, if the cluster shall be "
                "called so, change the name on all machines and let the one who leads apply it"
            )

    def _tell(self, event: str, text: str) -> None:
        """Log what keeps it from leading, once for each reason."""
        if self._told != event:
            self._told = event
            self._log.info(event, extra={"why": text})
