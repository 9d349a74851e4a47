"""What ``bsub -f`` asks for: files that are copied before a job's start and after its end.

Commands read it too, so nothing is imported that is slow to load.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from xce.model.errors import TextError

Transfer: TypeAlias = tuple[str, str, str, str]
"""``(local, operator, remote, place)``: a path of who submits, and one of the job; and which
directory the first is in, as `xce.step.file_copy.place_of` has it."""

BEFORE: Final = (">", "><", "<>")
"""Operators that copy local to remote before the start."""
AFTER: Final = ("<", "<<", "><", "<>")
"""Operators that copy remote to local after the end."""
APPEND: Final = "<<"
OPERATORS: Final = (">", "<", "<<", "><", "<>")
TRANSFERS_MAX: Final = 100
"""Most of one job."""


def parse_transfer(text: str) -> tuple[str, str, str]:
    """Return local path, operator and remote path of one ``-f``; a missing one is the local.

    Raises:
        TextError: There is no operator with blanks around it, or no local path.
    """
    words = text.split()
    places = [place for place, word in enumerate(words) if word in OPERATORS]
    if len(places) != 1 or places[0] != 1 or not 2 <= len(words) <= 3:
        raise TextError(
            f"{text!r}: a transfer is LOCAL OPERATOR [REMOTE], with blanks between; operators are "
            + " ".join(OPERATORS)
        )
    return words[0], words[1], words[2] if len(words) > 2 else words[0]


def render_transfer(transfer: Sequence[str]) -> str:
    """Return a transfer as `parse_transfer` reads it."""
    return " ".join(transfer[:3])
