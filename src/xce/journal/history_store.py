"""The database below the history store: what its writers and readers ask of one, whichever it is.

Statements are written once, with ``?`` for values, in what SQLite and PostgreSQL both understand;
`Dialect` has the few words in which they differ.
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from xce.model.errors import XceError

Row: TypeAlias = tuple[Any, ...]
Values: TypeAlias = Sequence[object]
Step: TypeAlias = tuple[str, Sequence[Values]]
"""A statement, and the values of each time that it is run."""
Claim: TypeAlias = tuple[str, Values]
"""A statement that must change a row, with its values."""
NUL_SHOWN: Final = "\N{SYMBOL FOR NULL}"
"""What texts have instead of NUL in a database that cannot have it."""


class HistoryError(XceError):
    """The history store cannot be used; the message says why and what to do."""


class HistoryAwayError(HistoryError):
    """The database does not answer; this passes by itself."""


class HistoryHeldError(HistoryError):
    """Another process writes the history; the message names it."""


class HistoryTakenError(HistoryError):
    """Another process writes the history now: this one must begin anew, or stand by."""


class Dialect(NamedTuple):
    """The words in which the two databases differ."""

    along: str
    """How the index is named along which rows are found."""
    inwards: str
    """The join that keeps to the order in which tables are named."""
    among: str
    """Whether a column has one of some numbers."""
    packs_numbers: bool
    """Whether these are given as JSON."""
    like: str
    """Whether a text is like a pattern."""
    quoted: dict[str, str]
    """What patterns have instead of these characters."""
    is_far: bool
    """Whether each question may cost the way to another machine."""
    text_of: str
    """The statement with which it says how it runs another one."""

    def numbers(self, values: Sequence[int]) -> object:
        """Return numbers as the value of ``among``."""
        return f"[{','.join(map(str, values))}]" if self.packs_numbers else list(values)

    def pattern(self, text: str) -> str:
        """Return a pattern, in which ``*`` is any text, as the value of ``like``."""
        return "".join(self.quoted.get(char, char) for char in text)


class HistoryStore(Protocol):
    """One connection. Every call may come from any thread; calls wait for each other."""

    dialect: Dialect
    place: str
    """The name of the store, for messages; it holds no secret."""

    def rows(self, statement: str, values: Values = ()) -> list[Row]:
        """Return what a question gives.

        Raises:
            HistoryError: It cannot be read.
        """
        ...

    def commit(self, steps: Iterable[Step], *, claim: Claim | None = None) -> bool:
        """Do all steps, or none.

        Args:
            steps: In order.
            claim: Comes first; where it changes nothing, nothing is done.

        Returns:
            Whether it was done.

        Raises:
            HistoryTakenError: Another process writes now; nothing was done.
            HistoryError: Whether it was done is not known: the same may be tried again, with a
                claim that then tells.
        """
        ...

    def fill(self, pages: Iterable[tuple[str, Sequence[Row]]]) -> None:
        """Put rows into tables that have none, and a cursor in place of the one there; all or none.

        Args:
            pages: Tables, each with some of its rows, with all columns in order.

        Raises:
            HistoryError: Nothing was put there.
        """
        ...

    def whole(self) -> AbstractContextManager[None]:
        """Let all questions inside find the store as it is now, whatever is written meanwhile.

        Raises:
            HistoryError: It was not so: what was read is worth nothing.
        """
        ...

    def has(self, table: str) -> bool:
        """Return whether there is a table of a name."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...
