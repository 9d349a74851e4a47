"""Roles and relations: what the parts of a job are, and how they stand to each other and to others.

A relation has one shape whatever its kind. What it asks of placement is compiled into the
constraints of `xce.model.constraint`; the rest is for the hosts (decisions N35, N41, N42).
"""

import enum
from typing import Final

import msgspec

from xce.model.ids import Micros

ROLES_MAX: Final = 64
"""Most roles of a job, attached ones too."""
RELATIONS_MAX: Final = 256
"""Most relations of a job."""
ROLE_NAME: Final = r"[A-Za-z_][A-Za-z0-9_]{0,62}"
"""Names of roles: they become parts of names of environment variables."""
GROUP_NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}"
"""Names of placement groups."""


class RelationKind(enum.StrEnum):
    """What a relation says. The set is fixed; words are stored and never renamed."""

    COLOCATE = "colocate"
    """All of it in one domain of the scope."""
    SPREAD = "spread"
    """At most ``max_per_domain`` tasks in each domain of the scope."""
    EXCHANGE = "exchange"
    """Data goes from ``source`` to ``target`` over a channel."""
    ISOLATE = "isolate"
    """No other job in the domains that are used."""
    SIDECAR_OF = "sidecar-of"
    """Runs beside its parents: starts before them and ends after them."""
    INIT_OF = "init-of"
    """Runs to success before the tasks of its parents start."""
    READY_AFTER = "ready-after"
    """Starts once ``target`` says that it is ready."""
    AFTER = "after"
    """Starts once ``target`` has ended well."""
    WITH = "with"
    """Starts together with ``target``."""
    FATE = "fate"
    """What becomes of the others when one ends badly."""
    SHARE = "share"
    CONSUMES = "consumes"
    PRODUCES = "produces"


PLACING: Final = frozenset(
    {RelationKind.COLOCATE, RelationKind.SPREAD, RelationKind.EXCHANGE, RelationKind.ISOLATE}
)
"""Kinds that compile into constraints on placement."""
LIFECYCLE: Final = frozenset(
    {
        RelationKind.SIDECAR_OF,
        RelationKind.INIT_OF,
        RelationKind.READY_AFTER,
        RelationKind.AFTER,
        RelationKind.WITH,
        RelationKind.FATE,
    }
)
"""Kinds that hosts enforce while the job runs; placement knows nothing of them."""


class LaunchType(enum.StrEnum):
    """How the tasks of a role are started."""

    SCRIPT = "script"
    """Once, on the role's first host, as LSF does."""
    TASKS = "tasks"
    """Every task, on every host."""
    MPI = "mpi"
    TORCH = "torch"


class Probe(msgspec.Struct, frozen=True, array_like=True):
    """How it is found out that a task is ready."""

    kind: str
    """``exec``, ``tcp`` or ``http``."""
    target: str
    """A command, a port, or a port with a path (``8000/health``)."""
    period_us: Micros = 1_000_000
    timeout_us: Micros = 1_000_000
    failures_max: int = 0
    """So many failures in a row end the wait; 0: it goes on."""


class Role(msgspec.Struct, frozen=True, array_like=True):
    """A named part of a job.

    A role that is not attached is a part of the request of the same name and at the same place
    among those that are not attached.
    """

    name: str
    count: int = 1
    """Tasks; 0: one on each host of the roles that it is attached to (``per: host``)."""
    resreq: str = ""
    """As given; empty: any host, one slot for each task."""
    command: str = ""
    """A shell command or a script's text; empty: the job's command runs it."""
    env: tuple[str, ...] = ()
    """``NAME=value``, beside the job's environment."""
    launch: LaunchType = LaunchType.SCRIPT
    cwd: str = ""
    """Where it runs; empty: where the job does."""
    attach: tuple[str, ...] = ()
    """Roles whose hosts and allocation it shares; then it is no part of the request."""
    ready: Probe | None = None
    output: str = ""
    """Where the output of its tasks goes; may hold ``%J``, ``%I``, ``%R`` (the role) and ``%T``
    (the task's place in it). Empty: with the job's output, each line named."""
    error: str = ""
    """Empty: with the output."""


class Relation(msgspec.Struct, frozen=True, array_like=True):
    """One relation, as given.

    Subjects are names of roles, or ``job:ID``, ``group:NAME``, ``data:NAME``, ``claim:NAME``.
    """

    kind: RelationKind
    source: tuple[str, ...] = ()
    """``from``."""
    target: tuple[str, ...] = ()
    """``to``."""
    roles: tuple[str, ...] = ()
    """Of a relation without direction."""
    scope: str = ""
    """``nvlink``, ``host`` or a level; empty: what the kind has by default."""
    required: bool = True
    """``strength: required``, else ``preferred``."""
    params: tuple[tuple[str, str], ...] = ()
    """What the kind has beside these, sorted by name; values in canonical text."""

    @property
    def subjects(self) -> tuple[str, ...]:
        """All that it is about, each once, in the order given."""
        return tuple(dict.fromkeys((*self.source, *self.target, *self.roles)))

    def param(self, name: str, default: str = "") -> str:
        """Return the value of a parameter."""
        return dict(self.params).get(name, default)
