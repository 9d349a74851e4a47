"""Which blobs may go: those that no job of the state and no row of the history names (X-17).

They are found where the whole state is at hand, when a snapshot is made. One must be found unnamed
twice, a good while apart: an apiserver that has sent a blob lately does not send it again.
"""

from collections.abc import Iterable
from typing import Final

from xce.journal.history_reader import HistoryReader
from xce.model.job import JobSpec
from xce.state.cluster import ClusterState

APART_S: Final = 3_600.0
"""Much longer than an apiserver counts a blob as known."""


def blobs_of(spec: JobSpec) -> tuple[str, str, str]:
    """Return the hashes that a spec names; empty: none."""
    return spec.script, spec.env, spec.files.input_blob


def find_unnamed(digests: Iterable[str], state: ClusterState, history: HistoryReader) -> list[str]:
    """Return the blobs that nothing names.

    Args:
        digests: What was stored before ``state`` was read: all that these entries brought, and
            nothing that later ones brought.
        state: As of now.
        history: Read after the state, so that what has left the one is in the other.

    Raises:
        HistoryError: It cannot be read.
    """
    unnamed = set(digests)
    for spec in state.specs.values():
        unnamed.difference_update(blobs_of(spec))
    for job in state.jobs.values():
        for boxes in (job.posts or {}).values():
            unnamed.difference_update(post.blob for post in boxes.values())
    if unnamed:
        for spec in history.specs():
            unnamed.difference_update(blobs_of(spec))
    return sorted(unnamed)


class UnnamedBlobs:
    """Remembers since when a blob was found unnamed each time."""

    def __init__(self, apart_s: float = APART_S) -> None:
        self._apart_s = apart_s
        self._since: dict[str, float] = {}

    def note(self, unnamed: Iterable[str], now_s: float) -> list[str]:
        """Return which of the blobs that were just found unnamed may go now.

        Args:
            unnamed: All that were found.
            now_s: Seconds that never go back.
        """
        self._since = {digest: self._since.get(digest, now_s) for digest in unnamed}
        gone = [digest for digest, at_s in self._since.items() if now_s - at_s >= self._apart_s]
        for digest in gone:
            del self._since[digest]
        return gone
