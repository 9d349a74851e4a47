"""``GET /watch``: what happens to jobs, as server-sent events, resumed by sequence number."""

from typing import Final

from aiohttp import web

from xce.apiserver.backend import Backend
from xce.apiserver.call import ENCODER, Call
from xce.apiserver.events import JobEvent
from xce.apiserver.listing import parse_number, parse_refs
from xce.apiserver.watch import Watcher

HEARTBEAT_S: Final = 15.0
SEQ_MAX: Final = (1 << 62) - 1


async def watch(backend: Backend, call: Call) -> web.StreamResponse:
    """Watch jobs; ``resync`` means: list them anew, some events were lost."""
    query = call.query
    last = call.header("Last-Event-ID")
    if last and "from_seq" not in query:
        query["from_seq"] = last
    from_seq = -1
    if query.get("from_seq"):
        from_seq = parse_number(query, "from_seq", 0, low=0, high=SEQ_MAX)
    user = query.get("user", "all")
    refs = parse_refs(query["jobs"]) if query.get("jobs") else None
    watcher = Watcher(
        "" if user == "all" else user,
        frozenset(job for _, job, _ in refs) if refs is not None else None,
        sees=lambda event: _is_seen(backend, call, event),
    )
    response = web.StreamResponse(
        headers={
            "Content-Type": "text/event-stream",
            "Cache-Control": "no-store",
            "XCE-Seq": str(backend.replica.seq),
        }
    )
    await response.prepare(call.request)
    backend.watchers.add(watcher, from_seq)
    try:
        await response.write(b"retry: 1000\n\n")
        while True:
            events = await watcher.next_events(HEARTBEAT_S)
            if watcher.must_resync:
                watcher.must_resync = False
                seq = backend.replica.seq
                await response.write(b'event: resync\nid: %d\ndata: {"seq":%d}\n\n' % (seq, seq))
            elif events:
                await response.write(render(events))
            else:
                await response.write(b": still here\n\n")
    finally:
        backend.watchers.remove(watcher)


def _is_seen(backend: Backend, call: Call, event: JobEvent) -> bool:
    """Return whether an event is about a job that the caller may know of."""
    if event.user == call.caller.user:
        return True
    sees = backend.sees(call.caller)
    if sees is None:
        return True
    job = backend.replica.state.jobs.get(event.jobid)
    return job is not None and sees(*backend.place_of(job))


def render(events: list[JobEvent]) -> bytes:
    """Return events as they are sent. The id stands on the last event of each entry only, so that
    who was cut off in the middle of an entry gets it whole again.
    """
    parts = []
    for place, event in enumerate(events):
        is_last = place + 1 == len(events) or events[place + 1].seq != event.seq
        head = b"event: job\nid: %d\n" % event.seq if is_last else b"event: job\n"
        parts.append(head + b"data: " + ENCODER.encode(event) + b"\n\n")
    return b"".join(parts)
