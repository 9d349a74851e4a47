"""``/jobs/{id}/messages`` and ``/jobs/{id}/attachment``: what people write to jobs."""

import hashlib
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta

from xce.apiserver.backend import Backend
from xce.apiserver.call import Call, answer, decode, raw_answer
from xce.apiserver.listing import parse_number
from xce.apiserver.post_rows import PostRow, render_posts
from xce.apiserver.problems import GONE, ProblemError, from_refusal, refused
from xce.apiserver.routes.jobs import INDEX_MAX, subject_of
from xce.apiserver.subject import WHOLE, Subject
from xce.model.command import PostMessage
from xce.model.record_post import ATTACHMENT_MAX, BOX_MAX, POST_TEXT_MAX, Post
from xce.model.refusal import Refusal, RefusalCode

NAME_MAX: Final = 255
BODY_MAX: Final = 2 * ATTACHMENT_MAX


class MessageBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A message to a job or element."""

    box: Annotated[int, Meta(ge=0, le=BOX_MAX)] = 0
    text: Annotated[str, Meta(max_length=POST_TEXT_MAX)]
    level: str = ""
    """``INFO``, ``WARNING``, ``ERROR``, ``CRITICAL``; empty: none."""
    index: Annotated[int, Meta(ge=0, le=INDEX_MAX)] | None = None
    """The element of an array; not given: all of it."""
    attached: Annotated[str, Meta(max_length=NAME_MAX)] = ""
    """Name of a file that is attached."""
    content: bytes = b""
    """What it holds, in base64."""


class MessagesAnswer(msgspec.Struct, frozen=True):
    """The messages of a job or element."""

    seq: int
    jobid: int
    index: int
    """0: the whole job."""
    messages: tuple[PostRow, ...]


class PostAnswer(msgspec.Struct, frozen=True):
    """Where a message lies now."""

    seq: int
    jobid: int
    box: int


_BODY: Final = msgspec.json.Decoder(MessageBody)


def _posts(subject: Subject) -> dict[int, Post]:
    """Return the messages of a job or element; of one that has left the state none are kept."""
    job = subject.job
    if job is None:
        return {}
    position = None if subject.index == WHOLE else job.position(subject.index)
    return job.posts_of(-1 if position is None else position)


async def list_messages(backend: Backend, call: Call) -> web.StreamResponse:
    """Tell what was written to a job."""
    subject = await subject_of(backend, call, call.query)
    seq = backend.replica.seq
    rows = render_posts(_posts(subject))
    return answer(seq, MessagesAnswer(seq, subject.job_id, max(subject.index, 0), rows))


async def post_message(backend: Backend, call: Call) -> web.StreamResponse:
    """Write to a job."""
    body: MessageBody = decode(_BODY, await call.body(BODY_MAX))
    query = {} if body.index is None else {"index": str(body.index)}
    subject = await subject_of(backend, call, query)
    caller = call.caller
    if bool(body.attached) != bool(body.content):
        raise refused(RefusalCode.BAD_REQUEST, "attached and content belong together")
    blobs: tuple[tuple[str, bytes], ...] = ()
    if body.content:
        digest = hashlib.blake2b(body.content, digest_size=16).hexdigest()
        blobs = ((digest, body.content),)
    command = PostMessage(
        caller.user, caller.is_admin, subject.job_id, body.box, body.text, subject.index,
        body.level, body.attached, blobs, caller.groups,
    )  # fmt: skip
    reply = await backend.write(command, caller)
    (result,) = reply.results
    if isinstance(result, Refusal):
        raise ProblemError(from_refusal(result))
    return answer(backend.replica.seq, PostAnswer(reply.seq, subject.job_id, body.box), status=201)


async def show_attachment(backend: Backend, call: Call) -> web.StreamResponse:
    """Show the file that is attached to a message."""
    subject = await subject_of(backend, call, call.query)
    box = parse_number(call.query, "box", 0, low=0, high=BOX_MAX)
    post = _posts(subject).get(box)
    if post is None or not post.blob:
        text = f"job {subject.job_id} has no attached file in message box {box}"
        raise refused(GONE, text, status=410)
    content = await backend.link.fetch_blob(post.blob)
    if content is None:
        raise refused(GONE, f"what was attached to job {subject.job_id} is damaged", status=410)
    media = "application/octet-stream"
    return raw_answer(backend.replica.seq, content, content_type=media)
