"""`PostMessage` to records: what people write to jobs."""

from typing import Final

from xce.control.selection import basis_of, refuse_denied, refuse_finished, refuse_unknown
from xce.model.command import Accepted, PostMessage
from xce.model.ids import Micros
from xce.model.permission import Actor, Permission
from xce.model.record import Record
from xce.model.record_post import ATTACHMENT_MAX, BOX_MAX, POST_TEXT_MAX, Post, Posted
from xce.model.refusal import Refusal, RefusalCode
from xce.state.cluster import ClusterState
from xce.state.job import Job
from xce.state.rights import OWNER

LEVELS: Final = ("", "INFO", "WARNING", "ERROR", "CRITICAL")


def decide_post(
    state: ClusterState, command: PostMessage, now_us: Micros
) -> tuple[list[Record], list[Accepted | Refusal]]:
    """Return the message, or why it is not taken."""
    job = state.jobs.get(command.job)
    if job is None:
        return [], [refuse_unknown(command.job)]
    refusal = _refuse(state, command, job)
    if refusal is not None:
        return [], [refusal]
    digest, content = command.blobs[0] if command.blobs else ("", b"")
    post = Post(
        command.by, now_us, command.text, command.level, digest, command.name, len(content)
    )  # fmt: skip
    index = command.index if job.array is not None else -1
    accepted = Accepted(job.id, index, index, "posted")
    return [Posted(job.id, index, command.box, post)], [accepted]


def basis_of_post(state: ClusterState, command: PostMessage) -> str:
    """Return on what ground somebody may write to a job; empty: he may not."""
    job = state.jobs.get(command.job)
    actor = Actor(command.by, command.groups, command.is_admin)
    return "" if job is None else basis_of(state, job, actor, Permission.JOB_MODIFY)


def _refuse(state: ClusterState, command: PostMessage, job: Job) -> Refusal | None:
    actor = Actor(command.by, command.groups, command.is_admin)
    refusal = refuse_denied(state, job, actor, Permission.JOB_MODIFY)
    if refusal is not None:
        return refusal
    if command.index >= 0 and job.position(command.index) is None:
        return refuse_unknown(job.id)
    if job.is_finished:
        return refuse_finished(job.id)
    is_own = basis_of(state, job, actor, Permission.JOB_MODIFY) == OWNER
    if command.blobs and not (is_own or command.is_admin):
        text = f"job {job.id} belongs to {job.owner.user}, who alone attaches files to messages"
        return Refusal(RefusalCode.NOT_YOURS, text, lsf="User permission denied", job=job.id)
    return _refuse_content(command)


def _refuse_content(command: PostMessage) -> Refusal | None:
    """Return what is wrong with a message, whomever it is for."""
    if not 0 <= command.box <= BOX_MAX:
        text = f"message box {command.box}: boxes have numbers from 0 to {BOX_MAX}"
        return Refusal(RefusalCode.BAD_REQUEST, text, job=command.job)
    if command.level not in LEVELS:
        text = f"level {command.level!r}: there are {', '.join(LEVELS[1:])}"
        return Refusal(RefusalCode.BAD_REQUEST, text, job=command.job)
    if len(command.text) > POST_TEXT_MAX:
        text = f"the message has {len(command.text)} characters; {POST_TEXT_MAX} are allowed"
        return Refusal(RefusalCode.TOO_LARGE, text, job=command.job)
    if len(command.blobs) > 1 or bool(command.blobs) != bool(command.name):
        text = "one file with a name can be attached"
        return Refusal(RefusalCode.BAD_REQUEST, text, job=command.job)
    size = sum(len(content) for _, content in command.blobs)
    if size > ATTACHMENT_MAX:
        text = f"the attached file has {size} bytes; {ATTACHMENT_MAX} are allowed"
        return Refusal(RefusalCode.TOO_LARGE, text, job=command.job)
    return None
