"""``GET /rbac``: whether a user may do something, and why."""

import pwd

import msgspec
from aiohttp import web

from xce.apiserver.backend import Backend
from xce.apiserver.call import Call, answer
from xce.apiserver.identity import group_names
from xce.apiserver.problems import denied, refused
from xce.apiserver.subject import WHOLE, find_subject
from xce.model.permission import PERMISSIONS, Actor, Permission
from xce.model.refusal import RefusalCode


class RbacAnswer(msgspec.Struct, frozen=True):
    """Whether something is allowed, and why."""

    user: str
    groups: tuple[str, ...]
    permission: str
    object: str
    allowed: bool
    basis: str
    """On what ground: ``owner``, ``admin``, ``everyone``, ``role NAME``; empty: it is not."""
    why: str


async def show_rbac(backend: Backend, call: Call) -> web.StreamResponse:
    """Tell whether a user may do something to an object, and why."""
    query = call.query
    user = query.get("user") or call.caller.user
    if user != call.caller.user and not backend.rights.basis(call.caller.actor, call.permission):
        raise denied(
            call.permission,
            f"you lack the permission {call.permission}: ask about yourself",
            about=f"user {user}",
        )
    permission = query.get("permission", "")
    if permission not in PERMISSIONS:
        raise refused(
            RefusalCode.BAD_REQUEST,
            f"{permission!r} is no permission; there are: {', '.join(PERMISSIONS)}",
        )
    actor = _actor(backend, call, user)
    about = query.get("object") or "cluster"
    owner, queue, project = await _place(backend, call, about)
    basis = backend.rights.basis(
        actor, Permission(permission), owner=owner, queue=queue, project=project
    )
    document = RbacAnswer(
        user, actor.groups, permission, about, bool(basis), basis, _why(actor, basis, permission)
    )
    return answer(backend.replica.seq, document)


def _actor(backend: Backend, call: Call, user: str) -> Actor:
    """Return a user as the system of this machine knows him."""
    if user == call.caller.user:
        return call.caller.actor
    try:
        account = pwd.getpwnam(user)
    except (KeyError, ValueError):
        return Actor(user)
    is_admin = account.pw_uid in (0, backend.identities.own_uid)
    return Actor(user, group_names(user, account.pw_gid), is_admin)


async def _place(backend: Backend, call: Call, text: str) -> tuple[str, str, str]:
    """Return owner, queue and project of ``cluster``, ``queue:NAME``, ``project:PATH``, ``job:ID``.

    Raises:
        ProblemError: There is no such object, or the caller may not know of it.
    """
    kind, _, name = text.partition(":")
    match kind:
        case "cluster" if not name:
            return "", "", ""
        case "queue" if name in backend.replica.state.queues:
            return "", name, ""
        case "project" if name:
            return "", "", name
        case "job" if name.isascii() and name.isdigit() and len(name) <= 19:
            subject = await find_subject(backend, int(name), WHOLE)
            sees = backend.sees(call.caller)
            if sees is None or sees(*subject.place):
                return subject.place
            raise refused(RefusalCode.UNKNOWN_JOB, f"no job has the id {name}")
        case "queue":
            raise refused(RefusalCode.UNKNOWN_QUEUE, f"no queue is called {name!r}")
        case _:
            raise refused(
                RefusalCode.BAD_REQUEST,
                f"{text!r} is no object: expected cluster, queue:NAME, project:PATH or job:ID",
            )


def _why(actor: Actor, basis: str, permission: str) -> str:
    match basis.partition(" "):
        case ["owner", _, _]:
            return "it is his own job"
        case ["admin", _, _] if actor.is_admin:
            return "he is root, or runs the cluster"
        case ["admin", _, _]:
            return "he is one of the admins in xce.yaml"
        case ["everyone", _, _]:
            return f"everyone has {permission}"
        case ["role", _, name]:
            return f"the role {name} was granted to him or a group of his, and has {permission}"
        case _:
            return f"neither everyone nor any role that he has here has {permission}"
