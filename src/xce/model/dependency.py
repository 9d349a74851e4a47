"""Dependency conditions: what ``-w`` means once names are resolved to jobs.

The text is parsed by `xce.resreq.dependency` into a tree whose leaves name jobs by id or by name;
submit resolves names to the ids of the owner's jobs known then (all of them must satisfy).
"""

import enum
from typing import Final, TypeAlias

import msgspec

from xce.model.ids import Index, JobId

WHOLE: Index = -1
"""Stands for "the whole job or array" where an element's index could stand."""
EACH: Index = -2
"""``[*]``: for each element of the array that waits, the one at the same place."""


class Test(enum.StrEnum):
    """What a condition asks of its subject."""

    DONE = "done"
    ENDED = "ended"
    EXIT = "exit"
    STARTED = "started"
    POST_DONE = "post_done"
    POST_ERR = "post_err"
    NUMDONE = "numdone"
    NUMENDED = "numended"
    NUMEXIT = "numexit"
    NUMHOLD = "numhold"
    NUMPEND = "numpend"
    NUMRUN = "numrun"
    NUMSTART = "numstart"
    EXTERNAL = "external"


COUNTS: Final = frozenset(test for test in Test if test.startswith("num"))
"""Tests of how many elements of an array are in a state."""
EVERY: Final = "*"
"""In place of an operator of such a test: all elements."""


class Subject(msgspec.Struct, frozen=True, array_like=True):
    """A job, an element of an array, or (before it is resolved) a name with wildcards."""

    job: JobId = 0
    index: Index = WHOLE
    name: str = ""
    """Empty once resolved."""


class Condition(msgspec.Struct, frozen=True, tag="is", array_like=True):
    """``test(subject [op code])``; several subjects (one name, many jobs): all of them."""

    test: Test
    subjects: tuple[Subject, ...]
    op: str = ""
    """``> >= < <= == !=`` with ``exit`` and ``num...``; empty: any exit code. With ``num...`` also
    ``*``: all."""
    code: int = 0
    word: str = ""
    """With ``external``: the first word of the job's external status (message 0)."""


class Not(msgspec.Struct, frozen=True, tag="not", array_like=True):
    """``!part``."""

    part: "Dependency"


class And(msgspec.Struct, frozen=True, tag="and", array_like=True):
    """``part && part ...``."""

    parts: tuple["Dependency", ...]


class Or(msgspec.Struct, frozen=True, tag="or", array_like=True):
    """``part || part ...``."""

    parts: tuple["Dependency", ...]


Dependency: TypeAlias = Condition | Not | And | Or
