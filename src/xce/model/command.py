"""Commands: wishes, imperative; each may be refused. They carry every outside fact."""

from typing import TypeAlias

import msgspec

from xce.model.config import ClusterConfig
from xce.model.ids import Index, JobId, Micros
from xce.model.job import Owner, Submission
from xce.model.permission import Denial
from xce.model.plan import Plan
from xce.model.trace import TraceKind


class SubmitJobs(msgspec.Struct, frozen=True, tag="submit-jobs", array_like=True):
    """Submit jobs for ``owner``. Each is judged on its own; one refusal does not stop the rest."""

    owner: Owner
    jobs: tuple[Submission, ...]
    blobs: tuple[tuple[str, bytes], ...] = ()
    """``(hash, content)`` of the scripts and environments that the jobs name and that are new."""
    key: str = ""
    """Idempotency key, already bound to the user; empty: none."""
    line: int = 0
    """With ``key``: the number of the first job among the lines of a bulk submit."""
    past: tuple[tuple[JobId, int, int], ...] = ()
    """``(job, outcome, exit code)`` of jobs that dependencies name and that only the history knows
    (decision X-34). Outcome NONE: an array of which elements ended in either way."""
    wall_us: Micros = 0
    """What the wall clock said when it came: the age of a timed key is told by that clock, which
    may have been set back while the controller's goes on (decision X-21). 0: the controller's."""
    past_elements: tuple[tuple[JobId, Index, int, int], ...] = ()
    """``(job, index, outcome, exit code)`` of elements that dependencies name, of arrays in
    ``past``."""
    is_admin: bool = False
    """Whether root asks, or the user who runs the cluster."""
    groups: tuple[str, ...] = ()
    """Groups of the user who asks, by which roles may be granted."""


class Selection(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """Which jobs a command is about: named ones, or all that match every given filter."""

    jobs: tuple[tuple[JobId, tuple[tuple[Index, Index], ...]], ...] = ()
    """``(job, index runs)``; no runs: the whole job."""
    user: str = ""
    """Only this user's; empty: everybody's."""
    queue: str = ""
    name: str = ""
    """Job name pattern with ``*``."""
    host: str = ""
    newest: bool = False
    """Of those that match, only the one submitted last."""
    all: bool = False
    """No job was named: take all that match the filters."""
    group: str = ""
    """Only of this job group, not of those below it."""
    app: str = ""
    """Only of this application profile."""
    state: str = ""
    """Only elements that are ``pend``, ``run`` or ``susp`` (by whomever); empty: all."""
    in_runs: bool = False
    """Where no job was named: whether what is told of jobs may be told of several as one, see
    `Accepted.last_job`."""


class KillJobs(msgspec.Struct, frozen=True, tag="kill-jobs", array_like=True):
    """End jobs: INT, TERM, KILL in turn; pending ones at once. ``force``: KILL at once."""

    by: str
    is_admin: bool
    selection: Selection
    force: bool = False
    groups: tuple[str, ...] = ()
    as_done: bool = False
    """What has started counts as done when it is gone."""


class SignalJobs(msgspec.Struct, frozen=True, tag="signal-jobs", array_like=True):
    """Send one signal, once, to running jobs."""

    by: str
    is_admin: bool
    selection: Selection
    signal: int = 0
    groups: tuple[str, ...] = ()


class StopJobs(msgspec.Struct, frozen=True, tag="stop-jobs", array_like=True):
    """Suspend running jobs, hold pending ones."""

    by: str
    is_admin: bool
    selection: Selection
    groups: tuple[str, ...] = ()


class ResumeJobs(msgspec.Struct, frozen=True, tag="resume-jobs", array_like=True):
    """Undo `StopJobs`."""

    by: str
    is_admin: bool
    selection: Selection
    groups: tuple[str, ...] = ()


class RequeueJobs(msgspec.Struct, frozen=True, tag="requeue-jobs", array_like=True):
    """Let jobs pend again under their ids; what runs is ended first."""

    by: str
    is_admin: bool
    selection: Selection
    states: tuple[str, ...] = ("RUN", "USUSP", "SSUSP")
    """Only elements in these states, as STAT has them; ``PEND``: go to the end of the queue."""
    hold: bool = False
    """They are held then, until they are resumed."""
    groups: tuple[str, ...] = ()


class MoveJobs(msgspec.Struct, frozen=True, tag="move-jobs", array_like=True):
    """Move pending jobs in the order of their queue: a user among his own jobs there of the same
    priority, an administrator among everybody's.
    """

    by: str
    is_admin: bool
    selection: Selection
    to_top: bool = True
    position: int = 1
    """Counted from the top or from the bottom, from 1."""
    groups: tuple[str, ...] = ()


class ForceJob(msgspec.Struct, frozen=True, tag="force-job", array_like=True):
    """Start a pending job or element at once, out of its turn, on hosts that are named."""

    by: str
    is_admin: bool
    job: JobId
    index: Index
    """Of the element; 0 of a job that is no array."""
    hosts: tuple[str, ...]
    is_firm: bool = False
    """Neither run windows nor other jobs suspend it."""
    groups: tuple[str, ...] = ()


class SwitchJobs(msgspec.Struct, frozen=True, tag="switch-jobs", array_like=True):
    """Let jobs be in another queue; what runs keeps its limits."""

    by: str
    is_admin: bool
    selection: Selection
    queue: str
    groups: tuple[str, ...] = ()


class Modification(msgspec.Struct, frozen=True, array_like=True):
    """A job as it shall be, made out from what it was."""

    job: JobId
    spec_id: int
    """Of what it was then; another modification that came between is not undone unseen."""
    cls: int
    submission: Submission
    """As if it was submitted so; array, hold and what was not changed are as they were."""
    array_limit: int = 0
    runs: tuple[tuple[Index, Index], ...] = ()
    """Elements that were named; none: the job, and all that were not set apart from it."""
    variants: list[tuple[int, int]] = []
    """Class and spec of what was set apart then; it is changed by items of its own."""
    goes_with_job: bool = False
    """It stands beside an item about the job, which changes what elements have not of their own."""


class ModifyJobs(msgspec.Struct, frozen=True, tag="modify-jobs", array_like=True):
    """Change jobs. Each is judged on its own, as if it was submitted so."""

    by: str
    is_admin: bool
    jobs: tuple[Modification, ...]
    changed: tuple[str, ...]
    """Names of what is changed, as members of a submission."""
    changes: str = ""
    """The same with the new values, for people."""
    blobs: tuple[tuple[str, bytes], ...] = ()
    past: tuple[tuple[JobId, int, int], ...] = ()
    """As in `SubmitJobs`."""
    past_elements: tuple[tuple[JobId, Index, int, int], ...] = ()
    groups: tuple[str, ...] = ()


class PostMessage(msgspec.Struct, frozen=True, tag="post-message", array_like=True):
    """Put a message into a box of a job."""

    by: str
    is_admin: bool
    job: JobId
    box: int
    text: str
    index: Index = -1
    """An element; -1: the whole job."""
    level: str = ""
    name: str = ""
    """Name of the attached file; empty: nothing is attached."""
    blobs: tuple[tuple[str, bytes], ...] = ()
    """``(hash, content)`` of what is attached."""
    groups: tuple[str, ...] = ()


class SetGroup(msgspec.Struct, frozen=True, tag="set-group", array_like=True):
    """Make a job group, or change its limit."""

    by: str
    is_admin: bool
    name: str
    limit: int | None = None
    """None: none, or as it was; -1: none."""
    is_new: bool = True
    """It must not be there; else it must be."""
    groups: tuple[str, ...] = ()


class DeleteGroups(msgspec.Struct, frozen=True, tag="delete-groups", array_like=True):
    """Delete job groups in which no job is left."""

    by: str
    is_admin: bool
    name: str
    """Empty: all that the caller has made and that are empty."""
    below: bool = False
    """Those below it, not the group itself, as far as they are empty."""
    groups: tuple[str, ...] = ()


class SetHostsOpen(msgspec.Struct, frozen=True, tag="set-hosts-open", array_like=True):
    """Open or close hosts for new work."""

    by: str
    hosts: tuple[str, ...]
    is_open: bool
    comment: str = ""
    is_admin: bool = False
    groups: tuple[str, ...] = ()


class SetDevicesOpen(msgspec.Struct, frozen=True, tag="set-devices-open", array_like=True):
    """Open or close GPUs of a host for new work; what runs on them runs on."""

    by: str
    host: str
    devices: tuple[str, ...]
    """By index or UUID."""
    is_open: bool
    comment: str = ""
    is_admin: bool = False
    groups: tuple[str, ...] = ()


class SetQueues(msgspec.Struct, frozen=True, tag="set-queues", array_like=True):
    """Open or close queues for new jobs; let their jobs start, or not."""

    by: str
    queues: tuple[str, ...]
    is_open: bool | None = None
    """None: leave it."""
    is_active: bool | None = None
    comment: str = ""
    is_admin: bool = False
    groups: tuple[str, ...] = ()


class DeclareHostsLost(msgspec.Struct, frozen=True, tag="declare-hosts-lost", array_like=True):
    """Give up hosts that are away at once, without waiting for the end of their grace."""

    by: str
    hosts: tuple[str, ...]
    is_admin: bool = False
    groups: tuple[str, ...] = ()


class EndStrangers(msgspec.Struct, frozen=True, tag="end-strangers", array_like=True):
    """End what hosts run of jobs that a restored journal does not know."""

    by: str
    hosts: tuple[str, ...]
    is_admin: bool = False
    groups: tuple[str, ...] = ()


class AdoptStrangers(msgspec.Struct, frozen=True, tag="adopt-strangers", array_like=True):
    """Take up again what hosts run of jobs that a restored journal does not know."""

    by: str
    hosts: tuple[str, ...]
    is_admin: bool = False
    groups: tuple[str, ...] = ()


class ApplyConfig(msgspec.Struct, frozen=True, tag="apply-config", array_like=True):
    """Put a checked configuration in effect."""

    by: str
    config: ClusterConfig
    is_admin: bool = False
    groups: tuple[str, ...] = ()


class ResolveWindows(msgspec.Struct, frozen=True, tag="resolve-windows", array_like=True):
    """When the run windows of queues are open, as instants: time zones are known outside."""

    queues: tuple[tuple[str, tuple[tuple[Micros, Micros], ...]], ...]
    """``(queue, ((opens, closes), ...))`` of all queues that have windows."""


class StartTrace(msgspec.Struct, frozen=True, tag="start-trace", array_like=True):
    """Have sessions tell of a job, a user's jobs, a queue, or everything. A rule about the same by
    the same user is replaced.
    """

    by: str
    is_admin: bool
    kind: TraceKind
    for_us: Micros
    job: JobId = 0
    name: str = ""
    """Of the user or queue."""
    sessions: int = 0
    """Of kind ``session``: how many."""


class StopTrace(msgspec.Struct, frozen=True, tag="stop-trace", array_like=True):
    """End rules of what is traced."""

    by: str
    is_admin: bool
    rules: tuple[int, ...] = ()
    """Numbers; none: all that the caller may end."""


class TrustKey(msgspec.Struct, frozen=True, tag="trust-key", array_like=True):
    """Trust a component's key; of one that is trusted already, change the expiry."""

    by: str
    certificate: bytes
    role: str
    name: str
    expires_at_us: Micros = 0
    """0: never."""


class RevokeKeys(msgspec.Struct, frozen=True, tag="revoke-keys", array_like=True):
    """Never trust these keys again."""

    by: str
    keys: tuple[str, ...]
    """Fingerprints, or beginnings of them."""
    why: str = ""


class MakeHostToken(msgspec.Struct, frozen=True, tag="make-host-token", array_like=True):
    """Expect the worker of a host to enrol with a token."""

    by: str
    token: str
    digest: str
    """Hash of the secret."""
    host: str
    expires_at_us: Micros
    key_expires_at_us: Micros = 0


class EnrolHost(msgspec.Struct, frozen=True, tag="enrol-host", array_like=True):
    """A worker that has a token wants its key to be trusted."""

    token: str
    digest: str
    host: str
    certificate: bytes


class NoteDenials(msgspec.Struct, frozen=True, tag="note-denials", array_like=True):
    """Keep what users were denied."""

    rows: tuple[Denial, ...]


class NoteLogin(msgspec.Struct, frozen=True, tag="note-login", array_like=True):
    """Keep that a user logged in."""

    by: str
    session: str
    way: str


class RefreshLogin(msgspec.Struct, frozen=True, tag="refresh-login", array_like=True):
    """Exchange the token with which a login is prolonged; one that was used before ends it."""

    by: str
    session: str
    turn: int
    """Which of the login's tokens was shown, from 0."""
    began_at_us: Micros
    ends_at_us: Micros


class RevokeLogin(msgspec.Struct, frozen=True, tag="revoke-login", array_like=True):
    """Let a login of a user count no more, or (``session`` empty) all that he has."""

    by: str
    user: str
    session: str = ""
    is_admin: bool = False
    groups: tuple[str, ...] = ()
    wall_us: Micros = 0
    """What the wall clock of the apiserver said."""


class ProposePlan(msgspec.Struct, frozen=True, tag="propose-plan", array_like=True):
    """The scheduler's proposal."""

    plan: Plan


class Tick(msgspec.Struct, frozen=True, tag="tick", array_like=True):
    """Time has passed; what became due is decided. Leaves no entry when nothing did."""

    history_seq: int = 0
    """Up to which entry the history store has everything."""
    is_settling: bool = False
    """Whether workers of the reign before are still awaited: no host is given up meanwhile."""


Command: TypeAlias = (
    SubmitJobs
    | KillJobs
    | SignalJobs
    | StopJobs
    | ResumeJobs
    | MoveJobs
    | ForceJob
    | RequeueJobs
    | SwitchJobs
    | ModifyJobs
    | PostMessage
    | SetGroup
    | DeleteGroups
    | SetHostsOpen
    | SetDevicesOpen
    | SetQueues
    | DeclareHostsLost
    | EndStrangers
    | AdoptStrangers
    | ApplyConfig
    | ResolveWindows
    | StartTrace
    | StopTrace
    | TrustKey
    | RevokeKeys
    | MakeHostToken
    | EnrolHost
    | NoteDenials
    | NoteLogin
    | RevokeLogin
    | RefreshLogin
    | ProposePlan
    | Tick
)


class Accepted(msgspec.Struct, frozen=True, tag="accepted", array_like=True, gc=False):
    """One thing done: which job (and element run) it is about."""

    job: JobId = 0
    first: Index = -1
    last: Index = -1
    text: str = ""
    """What was done, one word: ``submitted``, ``killed``, ``signaled``, ``stopped``,
    ``resumed``, ``moved``, ``requeued``, ``switched``, ``modified``, ``posted``, ``grouped``,
    ``deleted``, ``opened``, ``closed``, ``lost``, ``started``, ``refreshed``, ``traced``,
    ``not-traced``, ``trusted``, ``revoked``, ``made``, ``enrolled``."""
    queue: str = ""
    warning: str = ""
    at_us: Micros = 0
    number: int = 0
    """Of a moved job: its position, from 1; of what is traced: the rule's number; of a login: which
    of its tokens counts now."""
    last_job: JobId = 0
    """It is about all jobs with ids from ``job`` to this one; 0: about one. Only for who asked for
    runs."""
