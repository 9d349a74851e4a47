"""A follower's beginning from the journal of its own machine, while the controller reads it, too.

After a start of everything all of them need the state at once: who reads for himself need not wait
until the controller has read, and then has time to send. What was written meanwhile, or is not
there in the end, is settled by following as after any lost connection.
"""

import gc
import logging
from typing import NamedTuple

from xce.daemon.config_directory import load_site
from xce.daemon.journals import open_reader
from xce.daemon.paths import Layout
from xce.journal.codec import decode_batch
from xce.journal.recover import recover
from xce.model.errors import XceError
from xce.model.ids import Epoch, Seq
from xce.net.follow import Follower
from xce.state.apply import apply
from xce.state.cluster import ClusterState
from xce.state.snapshot import load


class Warm(NamedTuple):
    """A state to begin with."""

    state: ClusterState
    seq: Seq
    crc: int
    epoch: Epoch
    """Under which its last entry came, or a later one."""

    def follower(self) -> Follower:
        """Return the end that follows from here on."""
        return Follower(decode_batch, seq=self.seq, crc=self.crc, epoch=self.epoch)


def load_warm(layout: Layout, log: logging.Logger) -> Warm | None:
    """Return what the journal's files say; None: there are none here, or they cannot be read.

    The controller says what is wrong with a journal; here it is only not used.
    """
    try:
        site = load_site(layout.config)
        if site.journal.postgres or not layout.journal_file.exists():
            return None
        reader = open_reader(layout, site)
    except (XceError, OSError) as error:
        log.info("begins-empty", extra={"why": str(error)})
        return None
    try:
        state, seq, crc = recover(reader, restore=load, empty=ClusterState, apply_entry=apply)
        epoch = reader.lead_epoch()
    except (XceError, OSError) as error:
        log.info("begins-empty", extra={"why": str(error)})
        return None
    finally:
        reader.close()
    if not seq:
        return None
    gc.collect()
    gc.freeze()
    log.info("begins-warm", extra={"seq": seq, "jobs": len(state.jobs)})
    return Warm(state, seq, crc, epoch)
