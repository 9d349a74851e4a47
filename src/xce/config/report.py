"""What is wrong with configuration files: every problem with its file, line, key and a way out."""

import difflib
from collections.abc import Iterable
from typing import Final, NamedTuple

from xce.model.errors import ConfigError

PROBLEMS_MAX: Final = 100
"""Most problems that are listed; the rest is counted."""


class Problem(NamedTuple):
    """One thing that is wrong."""

    file: str
    line: int
    """Counted from 1; 0: the file as a whole."""
    key: str
    """Path of the key inside the file, e.g. ``[2].mem``; empty: the file as a whole."""
    text: str

    def __str__(self) -> str:
        """Return ``file:line: key: text``."""
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.key}: {self.text}" if self.key else f"{place}: {self.text}"


class Report:
    """Gathers problems, so that all are told at once."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def add(self, problem: Problem) -> None:
        """Take a problem down."""
        self.problems.append(problem)

    def raise_if_any(self) -> None:
        """Return if nothing is wrong.

        Raises:
            ConfigError: Something is; the message has one line for each problem.
        """
        if not self.problems:
            return
        lines = [str(problem) for problem in self.problems[:PROBLEMS_MAX]]
        if len(self.problems) > PROBLEMS_MAX:
            lines.append(f"... and {len(self.problems) - PROBLEMS_MAX} more problems")
        raise ConfigError("\n".join(lines))


def render_allowed(word: str, allowed: Iterable[str], *, listed_max: int = 24) -> str:
    """Return what may stand instead of ``word``: the nearest first, then all or the first few."""
    names = sorted(allowed)
    if not names:
        return "none is defined"
    near = difflib.get_close_matches(word[:100], names, n=2, cutoff=0.7)
    listed = ", ".join(names[:listed_max])
    more = f", ... ({len(names)} in all)" if len(names) > listed_max else ""
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    return f"{hint}allowed: {listed}{more}"
