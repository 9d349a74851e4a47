"""How much of a wish for processors hosts can take: columns along hosts.

Most hosts are alike: it is found out once for each layout of processors and each set of them that
is free, and remembered. Nothing here is asked for a request without ``affinity[]``.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from xce.model.processor import Layout, join_words, words_of
from xce.resreq.affinity import parse_affinity
from xce.resreq.ast import Affinity
from xce.sched.processors import held_by, most_attempts, most_tasks, place_tasks
from xce.state.hosts import Column
from xce.state.processors import ProcessorTable


class ProcessorShape(NamedTuple):
    """What a simple request wants of processors, laid out along hosts."""

    wish: Affinity
    codes: Column
    """The number of each host's layout; -1: nobody knows it."""
    layouts: Sequence[Layout]
    row: int
    """The first row that is a word of a set of processors."""
    words: int
    known: dict[tuple[int, bytes, bytes], Column]
    """What was counted for some tasks, layouts and free processors; not to be changed."""


KNOWN_BYTES: Final = 1 << 17
"""Of a request about so many bytes are remembered; there may be very many requests."""
_BASE_BYTES: Final = 1 << 9
_BYTES_MAX: Final = 1 << 13
"""What is free on very many hosts hardly ever comes again."""


def lay_out(text: str, table: ProcessorTable, row: int) -> ProcessorShape | None:
    """Return the shape of a wish; None: no processors are wanted."""
    if not text:
        return None
    codes = np.asarray(table.codes, np.int64)
    return ProcessorShape(parse_affinity(text), codes, table.layouts, row, table.words, {})


def within(shape: ProcessorShape, numbers: Column) -> ProcessorShape:
    """Return the shape along some hosts only."""
    return shape._replace(codes=shape.codes[numbers])


def tasks_by_processors(shape: ProcessorShape, free: Column) -> Column:
    """Return how many tasks of an attempt the processors of each host allow.

    Args:
        shape: What is wanted.
        free: What is free, along all rows and the shape's hosts.
    """
    return _each(shape, free, 0)


def attempts_by_processors(shape: ProcessorShape, free: Column, tasks: int) -> Column:
    """Return how many attempts of so many tasks on one host the processors of each host allow."""
    return _each(shape, free, tasks)


def free_processors(shape: ProcessorShape, free: Column) -> Column:
    """Return how many processors are free on each host."""
    rows = free[shape.row : shape.row + shape.words]
    counts: Column = np.bitwise_count(rows).sum(axis=0).astype(np.int64)
    return counts


def _each(shape: ProcessorShape, free: Column, tasks: int) -> Column:
    """Return how many attempts of so many tasks each host allows; 0: how many tasks of one."""
    words = free[shape.row : shape.row + shape.words]
    if words.nbytes > _BYTES_MAX:
        return _count(shape, words, tasks)
    question = tasks, shape.codes.tobytes(), words.tobytes()
    found = shape.known.get(question)
    if found is None:
        each = _BASE_BYTES + words.nbytes + 2 * shape.codes.nbytes
        if (len(shape.known) + 1) * each > KNOWN_BYTES:
            shape.known.clear()
        found = shape.known[question] = _count(shape, words, tasks)
    return found


def _count(shape: ProcessorShape, words: Column, tasks: int) -> Column:
    """Return a number for each host, asking once for those that are alike."""
    found = np.zeros(len(shape.codes), np.int64)
    known = np.flatnonzero(shape.codes >= 0)
    if not len(known):
        return found
    keys = np.concatenate((shape.codes[None, known], words[:, known]))
    order = np.lexsort(keys)
    ranked = keys[:, order]
    is_new = np.append(True, (ranked[:, 1:] != ranked[:, :-1]).any(axis=0))
    kinds = ranked[:, is_new].T.tolist()
    kinds_of = [(shape.layouts[code], join_words(masks)) for code, *masks in kinds]
    if tasks:
        counts = [most_attempts(shape.wish, *kind, tasks) for kind in kinds_of]
    else:
        counts = [most_tasks(shape.wish, *kind) for kind in kinds_of]
    found[known[order]] = np.asarray(counts, np.int64)[is_new.cumsum() - 1]
    return found


def pick_processors(shape: ProcessorShape, number: int, tasks: int, free: Column) -> list[int]:
    """Return what an attempt gets of the processors of one host, as a record holds it.

    That is a set of words that it holds, then a set for the units of each task.

    Args:
        shape: What is wanted; it fits.
        number: The host, as a column of the shape.
        tasks: Tasks on it.
        free: What is free on the host, along the words; what is picked is taken of it.
    """
    layout, words = shape.layouts[int(shape.codes[number])], shape.words
    picked = place_tasks(shape.wish, layout, join_words(free.tolist()), tasks)
    assert len(picked) == tasks, "processors that fit cannot be picked"
    held = words_of(held_by(shape.wish, layout, picked), words)
    free -= held
    return [word for one in (held, *(words_of(task, words) for task in picked)) for word in one]
