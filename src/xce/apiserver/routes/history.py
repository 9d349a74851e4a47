"""``GET /history/jobs /history/usage /history/sums``: what was, for ever."""

from typing import Final

import msgspec
from aiohttp import web

from xce.apiserver.backend import Backend
from xce.apiserver.call import Call, answer
from xce.apiserver.courses import (
    SCOPES,
    HistoryPage,
    Wanted,
    parse_outcomes,
    parse_usage_cursor,
    tell_page,
    usage_page,
)
from xce.apiserver.listing import parse_cursor, parse_number, parse_refs
from xce.apiserver.problems import refused
from xce.journal.history_search import FOREVER, Search, Span, Sums
from xce.model.ids import SECOND_US, JobId
from xce.model.refusal import RefusalCode

PAGE: Final = 1_000
PAGE_MAX: Final = 20_000


class CoursesAnswer(msgspec.Struct, frozen=True):
    """Jobs with their courses."""

    seq: int
    now: float
    rows: tuple[msgspec.Raw, ...]
    missing: tuple[str, ...]
    next: str | None


class SumsAnswer(msgspec.Struct, frozen=True):
    """Sums over attempts that are over."""

    seq: int
    sums: Sums


async def list_courses(backend: Backend, call: Call) -> web.StreamResponse:
    """List jobs with all that happened to them."""
    query = call.query
    scope = query.get("scope", "all" if "ids" in query else "unfinished")
    if scope not in SCOPES:
        raise refused(RefusalCode.BAD_REQUEST, f"scope={scope}: expected {', '.join(SCOPES)}")
    search = _search(backend, call)
    wanted = Wanted(
        search=search,
        states=SCOPES[scope],
        refs=parse_refs(query["ids"]) if "ids" in query else (),
        named="ids" in query,
        behind=parse_cursor(query["cursor"]) if query.get("cursor") else (0, -1),
        limit=parse_number(query, "limit", PAGE, low=1, high=PAGE_MAX),
    )
    state, seq, now_us = backend.replica.state, backend.replica.seq, backend.now_us
    unfinished: tuple[JobId, ...] = ()
    if search.user:
        unfinished = tuple(state.unfinished.get(search.user, ()))
    else:
        unfinished = tuple(job for jobs in state.unfinished.values() for job in jobs)
    page: HistoryPage = await backend.archive.ask(
        lambda reader: tell_page(reader, wanted, now_us, unfinished), seq=seq
    )
    return answer(seq, CoursesAnswer(seq, backend.now(), page.rows, page.missing, page.next))


async def list_usage(backend: Backend, call: Call) -> web.StreamResponse:
    """List attempts that are over, by their ends: one row each."""
    query, seq = call.query, backend.replica.seq
    search = _search(backend, call)
    cursor = parse_usage_cursor(query.get("cursor", ""))
    if cursor is None:
        raise refused(RefusalCode.BAD_REQUEST, f"{query['cursor']!r} is no cursor")
    limit = parse_number(query, "limit", PAGE, low=1, high=PAGE_MAX)
    queues = backend.replica.state.queues
    page: HistoryPage = await backend.archive.ask(
        lambda reader: usage_page(reader, search, cursor, limit, queues), seq=seq
    )
    return answer(seq, CoursesAnswer(seq, backend.now(), page.rows, page.missing, page.next))


async def show_sums(backend: Backend, call: Call) -> web.StreamResponse:
    """Show the sums over attempts that are over."""
    seq = backend.replica.seq
    search = _search(backend, call)
    sums: Sums = await backend.archive.ask(
        lambda reader: asked.sums(search) if (asked := reader.search()) is not None else Sums(),
        seq=seq,
    )
    return answer(seq, SumsAnswer(seq, sums))


def _search(backend: Backend, call: Call) -> Search:
    """Return what the parameters ask for, of what the caller may see.

    Raises:
        ProblemError: One has no meaning.
    """
    query = call.query
    user = query.get("user", "" if "ids" in query else call.caller.user)
    return Search(
        jobs=tuple(job for _, job, _ in parse_refs(query["ids"])) if "ids" in query else (),
        user="" if user == "all" else user,
        queue=query.get("queue", ""),
        name=query.get("name", ""),
        project=query.get("project", ""),
        host=query.get("host", ""),
        group=query.get("group", ""),
        outcomes=parse_outcomes(query.get("scope", "")),
        submitted=_span(query, "submitted"),
        dispatched=_span(query, "dispatched"),
        ended=_span(query, "ended"),
        sees=backend.sees(call.caller),
    )


def _span(query: dict[str, str], name: str) -> Span:
    """Return the instants of ``from,to`` in seconds; either may be left out."""
    text = query.get(name, "")
    if not text:
        return FOREVER
    low, comma, high = text.partition(",")
    try:
        first = round(float(low) * SECOND_US) if low else FOREVER[0]
        last = round(float(high) * SECOND_US) if high else FOREVER[1]
    except (ValueError, OverflowError):
        comma = ""
        first = last = 0
    if not comma or not 0 <= first <= FOREVER[1] or not 0 <= last <= FOREVER[1]:
        raise refused(RefusalCode.BAD_REQUEST, f"{name}={text}: expected from,to in seconds")
    return first, last
