"""The matrix: what each route needs, and what comes of it for each role. One table.

Each row is a route, or an action of one. Its cells say what happens to a user who has nothing but
the role of the column, as letters in the order of `COLUMNS`:

* ``y``: it is done;
* ``n``: it is denied, and the answer names the permission that is missing;
* ``-``: the object is not there for him: lists leave it out, its id answers as unknown.

``own`` is about an object of the caller's own (or about no object), ``other`` about another user's.
A test sends every request of every cell.
"""

import enum
from typing import Final

import msgspec

from xce.model.permission import Permission

COLUMNS: Final = ("nobody", "everyone", "viewer", "operator", "admin")
"""``nobody``: a user who was identified, where ``roles.yaml`` says ``everyone: []``. ``everyone``:
a user without any grant. The others: users to whom this role was granted in the whole cluster."""


class About(enum.Enum):
    """What a route's permission is asked about."""

    NOTHING = "nothing"
    """Anybody may, even unidentified."""
    CALLER = "caller"
    """Whoever was identified may."""
    CLUSTER = "cluster"
    QUEUE = "queue"
    JOB = "job"
    JOBS = "jobs"
    """Those that may not be seen are left out."""
    USER = "user"


class Access(msgspec.Struct, frozen=True):
    """What one route, or one action of it, needs."""

    method: str
    path: str
    action: str
    about: About
    permission: Permission | None
    own: str
    other: str = ""
    """Empty: there is nothing that is another user's."""
    also: Permission | None = None
    """A second permission that it needs, and that everyone has until ``roles.yaml`` names it."""


_P = Permission
MATRIX: Final = (
    # method, path, action, about, permission, own, another's
    Access("GET", "/cluster", "", About.CALLER, None, "yyyyy"),
    Access("GET", "/jobs", "", About.JOBS, _P.JOB_VIEW, "yyyyy", "-yyyy"),
    Access("POST", "/jobs", "", About.QUEUE, _P.QUEUE_SUBMIT, "nyyyy", also=_P.PROJECT_SUBMIT),
    Access("POST", "/jobs/actions", "kill", About.JOB, _P.JOB_KILL, "yyyyy", "-nnyy"),
    Access("POST", "/jobs/actions", "signal", About.JOB, _P.JOB_SIGNAL, "yyyyy", "-nnyy"),
    Access("POST", "/jobs/actions", "checkpoint", About.JOB, _P.JOB_SIGNAL, "yyyyy", "-nnyy"),
    Access("POST", "/jobs/actions", "stop", About.JOB, _P.JOB_STOP, "yyyyy", "-nnyy"),
    Access("POST", "/jobs/actions", "resume", About.JOB, _P.JOB_RESUME, "yyyyy", "-nnyy"),
    Access("POST", "/jobs/actions", "requeue", About.JOB, _P.JOB_REQUEUE, "yyyyy", "-nnyy"),
    Access("POST", "/jobs/actions", "top", About.JOB, _P.JOB_MOVE, "yyyyy", "-nnyy"),
    Access("POST", "/jobs/actions", "bottom", About.JOB, _P.JOB_MOVE, "yyyyy", "-nnyy"),
    Access("POST", "/jobs/actions", "switch", About.JOB, _P.JOB_MODIFY, "yyyyy", "-nnyy"),
    Access("POST", "/jobs/actions", "modify", About.JOB, _P.JOB_MODIFY, "yyyyy", "-nnyy"),
    Access("GET", "/jobs/{id}", "", About.JOB, _P.JOB_VIEW, "yyyyy", "-yyyy"),
    Access("GET", "/jobs/{id}/why", "", About.JOB, _P.JOB_VIEW, "yyyyy", "-yyyy"),
    Access("GET", "/jobs/{id}/output", "", About.JOB, _P.JOB_OUTPUT, "yyyyy", "-nyyy"),
    Access("GET", "/jobs/{id}/terminal", "", About.JOB, _P.JOB_ATTACH, "yyyyy", "-nnny"),
    Access("POST", "/jobs/{id}/terminal", "", About.JOB, _P.JOB_ATTACH, "yyyyy", "-nnny"),
    Access("GET", "/jobs/{id}/script", "", About.JOB, _P.JOB_OUTPUT, "yyyyy", "-nyyy"),
    Access("GET", "/jobs/{id}/environment", "", About.JOB, _P.JOB_ATTACH, "yyyyy", "-nnny"),
    Access("GET", "/jobs/{id}/spec", "", About.JOB, _P.JOB_OUTPUT, "yyyyy", "-nyyy"),
    Access("GET", "/jobs/{id}/wait", "", About.JOB, _P.JOB_VIEW, "yyyyy", "-yyyy"),
    Access("GET", "/jobs/{id}/messages", "", About.JOB, _P.JOB_VIEW, "yyyyy", "-yyyy"),
    Access("POST", "/jobs/{id}/messages", "", About.JOB, _P.JOB_MODIFY, "yyyyy", "-nnyy"),
    Access("POST", "/jobs/{id}/run", "", About.JOB, _P.JOB_FORCE, "nnnny", "-nnny"),
    Access("GET", "/jobs/{id}/attachment", "", About.JOB, _P.JOB_OUTPUT, "yyyyy", "-nyyy"),
    Access("POST", "/plan", "", About.QUEUE, _P.QUEUE_SUBMIT, "nyyyy", also=_P.PROJECT_SUBMIT),
    Access("GET", "/trace", "", About.JOB, _P.JOB_TRACE, "yyyyy", "-nnyy"),
    Access("GET", "/trace/rules", "", About.CALLER, None, "yyyyy"),
    Access("POST", "/trace/actions", "on", About.JOB, _P.JOB_TRACE, "yyyyy", "-nnyy"),
    Access("POST", "/trace/actions", "off", About.CALLER, None, "yyyyy"),
    Access("POST", "/conditions", "", About.CALLER, None, "yyyyy"),
    Access("GET", "/arrays", "", About.JOBS, _P.JOB_VIEW, "yyyyy", "-yyyy"),
    Access("GET", "/hosts", "", About.CLUSTER, _P.CLUSTER_VIEW, "nyyyy"),
    Access("POST", "/hosts/actions", "open", About.CLUSTER, _P.HOST_OPEN, "nnnyy"),
    Access("POST", "/hosts/actions", "close", About.CLUSTER, _P.HOST_CLOSE, "nnnyy"),
    Access("POST", "/hosts/actions", "lost", About.CLUSTER, _P.HOST_LOST, "nnnyy"),
    Access("POST", "/hosts/actions", "kill", About.CLUSTER, _P.HOST_LOST, "nnnyy"),
    Access("POST", "/hosts/actions", "adopt", About.CLUSTER, _P.HOST_LOST, "nnnyy"),
    Access("POST", "/hosts/actions", "open-devices", About.CLUSTER, _P.HOST_OPEN, "nnnyy"),
    Access("POST", "/hosts/actions", "close-devices", About.CLUSTER, _P.HOST_CLOSE, "nnnyy"),
    Access("GET", "/queues", "", About.CLUSTER, _P.CLUSTER_VIEW, "nyyyy"),
    Access("POST", "/queues/actions", "open", About.QUEUE, _P.QUEUE_OPEN, "nnnyy"),
    Access("POST", "/queues/actions", "close", About.QUEUE, _P.QUEUE_CLOSE, "nnnyy"),
    Access("POST", "/queues/actions", "activate", About.QUEUE, _P.QUEUE_ACTIVATE, "nnnyy"),
    Access("POST", "/queues/actions", "inactivate", About.QUEUE, _P.QUEUE_INACTIVATE, "nnnyy"),
    Access("POST", "/config/actions", "apply", About.CLUSTER, _P.CONFIG_APPLY, "nnnny"),
    Access("GET", "/parameters", "", About.CLUSTER, _P.CLUSTER_VIEW, "nyyyy"),
    Access("GET", "/users", "", About.CLUSTER, _P.CLUSTER_VIEW, "nyyyy"),
    Access("GET", "/groups", "", About.CLUSTER, _P.CLUSTER_VIEW, "nyyyy"),
    Access("GET", "/jobgroups", "", About.CLUSTER, _P.CLUSTER_VIEW, "nyyyy"),
    Access("POST", "/jobgroups/actions", "add", About.CALLER, None, "yyyyy"),
    Access("POST", "/jobgroups/actions", "modify", About.CALLER, None, "yyyyy"),
    Access("POST", "/jobgroups/actions", "delete", About.CALLER, None, "yyyyy"),
    Access("GET", "/apps", "", About.CLUSTER, _P.CLUSTER_VIEW, "nyyyy"),
    Access("GET", "/pools", "", About.CLUSTER, _P.CLUSTER_VIEW, "nyyyy"),
    Access("GET", "/history/jobs", "", About.JOBS, _P.JOB_VIEW, "yyyyy", "-yyyy"),
    Access("GET", "/history/usage", "", About.JOBS, _P.JOB_VIEW, "yyyyy", "-yyyy"),
    Access("GET", "/history/sums", "", About.JOBS, _P.JOB_VIEW, "yyyyy", "-yyyy"),
    Access("GET", "/watch", "", About.JOBS, _P.JOB_VIEW, "yyyyy", "-yyyy"),
    Access("GET", "/rbac", "", About.USER, _P.RBAC_VIEW, "yyyyy", "nnyyy"),
    Access("GET", "/login", "", About.NOTHING, None, "yyyyy"),
    Access("POST", "/login", "", About.NOTHING, None, "yyyyy"),
    Access("POST", "/login/refresh", "", About.NOTHING, None, "yyyyy"),
    Access("POST", "/logins/revoke", "", About.USER, _P.TOKEN_REVOKE, "yyyyy", "nnnny"),
    Access("GET", "/ready", "", About.NOTHING, None, "yyyyy"),
)
_ROWS: Final = {(row.method, row.path, row.action): row for row in MATRIX}
_ROUTES: Final = {(row.method, row.path): row for row in reversed(MATRIX)}


def permission_for(path: str, action: str) -> Permission:
    """Return what an action of a route needs.

    Raises:
        KeyError: It has no row: nobody has decided yet who may use it.
    """
    permission = _ROWS["POST", path, action].permission
    assert permission is not None, f"{action} at {path} needs a permission"
    return permission


def route_access(method: str, path: str) -> Access:
    """Return the row of a route, the first one where its actions differ.

    Raises:
        KeyError: It has none.
    """
    return _ROUTES[method, path]


def render_matrix() -> str:
    """Return the matrix as a table of Markdown."""
    heads = ["request", "needs", *(f"{name}: own, other's" for name in COLUMNS)]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for row in MATRIX:
        request = f"`{row.method} {row.path}`" + (f" {row.action}" if row.action else "")
        needs = "nothing" if row.about is About.NOTHING else "to be known"
        if row.permission is not None:
            needs = ", ".join(f"`{item}`" for item in (row.permission, row.also) if item)
        cells = [
            f"{own}, {row.other[place]}" if row.other else own for place, own in enumerate(row.own)
        ]
        lines.append(f"| {' | '.join([request, needs, *cells])} |")
    return "\n".join(lines) + "\n"
