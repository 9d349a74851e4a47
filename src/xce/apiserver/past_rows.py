"""Job rows of what only the history knows."""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from xce.apiserver.exceptions import exceptions_of
from xce.apiserver.fields import RowWriter
from xce.apiserver.rows import (
    ALL_STATES,
    Element,
    at_s,
    ended_element_row,
    index_runs,
    withdrawn_element,
)
from xce.journal.past import PastJob, PastWithdrawal
from xce.model.config import QueueConfig
from xce.model.display import end_cause_text
from xce.model.ids import SECOND_US, Index
from xce.model.job import EndCause, Outcome
from xce.state.ineligible import alike, span_at

_NONE: Final[Mapping[str, QueueConfig]] = MappingProxyType({})


def shared_halves(writer: RowWriter, past: PastJob) -> Callable[[Index], bytes]:
    """Return what says of an element what it has alike with those like it; each is made once."""

    @cache
    def of_form(place: int) -> bytes:
        found = past.apart[place] if place >= 0 else past
        return writer.shared(found.spec, found.key, found.resreq)

    return lambda index: of_form(past.place_of(index))


def past_elements(
    past: PastJob, states: frozenset[str] = ALL_STATES, queues: Mapping[str, QueueConfig] = _NONE
) -> list[Element]:
    """Return the rows of a job that only the history knows, in index order.

    Args:
        past: The job.
        states: Only elements in these.
        queues: As they are now: what is unusual is said by what they say.
    """
    found: list[Element] = []
    limit = past.array.limit if past.array is not None else 0
    for item in past.elements:
        if ("done" if item.ended.outcome == Outcome.DONE else "exit") not in states:
            continue
        element = ended_element_row(past.job, item.index, past.submit_at_us, item.ended, item.hosts)
        element.ended_by, element.detail = item.by, item.detail
        queue = queues.get(past.at(item.index).key.queue)
        element.exceptions = exceptions_of(
            queue, element.start_at, element.end_at, 0, element.cpu_s
        )
        if item.requeue is not None:
            cause, at_us, element.requeued_detail = item.requeue
            element.requeued, element.requeued_at = end_cause_text(EndCause(cause)), at_s(at_us)
        found.append(element)
    for gone in past.withdrawn if "exit" in states else ():
        for run in _alike_runs(past, gone):
            element = withdrawn_element(past.job, past.submit_at_us, run, gone.cause, gone.by)
            element.end_at = at_s(gone.at_us)
            found.append(element)
    for element in found:
        element.array_limit = limit
        span_us = span_at(past.ineligible, element.index)
        element.ineligible_s = None if span_us is None else span_us / SECOND_US
    found.sort(key=lambda element: element.index)
    return found


def _alike_runs(past: PastJob, gone: PastWithdrawal) -> Iterator[tuple[int, int, int]]:
    """Yield the runs of elements that ended before they started, and waited alike."""
    if past.array is None:
        yield (0, 1, 1)
        return
    for part in alike(past.ineligible, ((gone.first, gone.last),)):
        for first, last in part:
            low = past.array.position_from(first)
            yield from index_runs(past.array, low, past.array.position_from(last + 1) - 1)
