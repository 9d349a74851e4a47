"""What stands in the journal behind the last snapshot, and when it is too much. Pure.

A start reads it entry by entry, which takes longer than a snapshot of the same; an entry may be
about a single job or about ten thousand.
"""

from typing import Final, NamedTuple

ENTRIES_MAX: Final = 20_000
BYTES_MAX: Final = 16 * 1024 * 1024
BYTES_OF_JOB: Final = 32
"""Of a large state more may be left: a snapshot is all of it."""
QUIET: Final = 4
"""While nothing comes, a tail of so small a part of that is worth a snapshot."""


class Tail(NamedTuple):
    """Entries and bytes."""

    entries: int
    size: int

    def __add__(self, more: object) -> "Tail":
        """Return a longer one."""
        assert isinstance(more, Tail)
        return Tail(self.entries + more.entries, self.size + more.size)

    def without(self, gone: "Tail") -> "Tail":
        """Return what is left of it."""
        return Tail(self.entries - gone.entries, self.size - gone.size)

    def is_long(self, jobs: int, *, is_quiet: bool) -> bool:
        """Return whether a snapshot is due.

        Args:
            jobs: In the state.
            is_quiet: Nothing has come for a while.
        """
        limit = max(BYTES_MAX, BYTES_OF_JOB * jobs)
        if is_quiet:
            limit //= QUIET
        return self.entries >= ENTRIES_MAX or self.size >= limit
