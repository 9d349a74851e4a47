"""A job as it was submitted: its owner, its immutable spec, its array, its words.

The mutable rest is `xce.state.cluster.Job`.
"""

import enum
from typing import Final

import msgspec

from xce.model.checkpoint import Checkpoints
from xce.model.ids import Micros
from xce.model.process_limits import NO_LIMITS, ProcessLimits
from xce.model.relation import Relation, Role
from xce.model.request import Request
from xce.model.transfers import Transfer

NAME_MAX: Final = 4094
COMMAND_MAX: Final = 4094
DESCRIPTION_MAX: Final = 4094
ARRAY_SIZE_MAX: Final = 10_000_000
"""Default of ``max_array_size``: bounds the number of elements and the largest index."""


REQUEUES_MAX: Final = 100
"""So often an element is started anew for its exit status, where nothing else is said."""


class Phase(enum.IntEnum):
    """The life of an attempt. Numbers are stored; they never change."""

    PENDING = 0
    STARTING = 1
    """Placed; the launch is owed to its first host."""
    RUNNING = 2
    ENDED = 3


class Outcome(enum.IntEnum):
    """How a job or element ended."""

    NONE = 0
    DONE = 1
    EXIT = 2


class PostStat(enum.IntEnum):
    """How the post-execution commands of an element ended. Numbers are stored."""

    NONE = 0
    """It has none, or they have not ended."""
    DONE = 1
    FAILED = 2


class Stop(enum.IntFlag):
    """Why the cluster itself suspends an attempt. Numbers are stored; they never change."""

    NONE = 0
    WINDOW = 1
    """The run windows of its queue are closed."""
    PREEMPTED = 2
    """A job of a queue that may preempt has its room."""
    LOAD = 4
    """The load of one of its hosts is beyond what its queue bears."""


class EndCause(enum.IntEnum):
    """Why a job ended: one closed list. Numbers are LSF's ``exitInfo`` where it has them.

    Decided and durable before the signal is sent (decision X-12).
    """

    NONE = 0
    """It ended by itself."""
    PREEMPT = 1
    RUNLIMIT = 5
    DEADLINE = 6
    PROCESSLIMIT = 7
    FORCE_OWNER = 8
    FORCE_ADMIN = 9
    REQUEUE_OWNER = 10
    REQUEUE_ADMIN = 11
    CPULIMIT = 12
    CHKPNT = 13
    OWNER = 14
    ADMIN = 15
    MEMLIMIT = 16
    EXTERNAL_SIGNAL = 17
    SWAP = 20
    THREADLIMIT = 21
    CWD_NOTEXIST = 25
    ORPHAN_SYSTEM = 27
    PRE_EXEC_FAIL = 28
    # Ours, numbered from 100.
    STATUS_LOST = 100
    HOST_RESTARTED = 101
    HOST_LOST = 102
    START_FAILED = 103
    OUTPUT = 104
    """An output or input file could not be opened."""
    TERMINAL_LOST = 105
    """Nobody was at the terminal of an interactive job any more."""
    REQUEUE_EXIT = 106
    """Its exit status is one for which it is to be started anew."""
    REQUEUE_PRE_EXEC = 107
    """A command that runs before it failed: it is tried again elsewhere, or later."""
    OWNER_DONE = 108
    """As `OWNER`, who wants it recorded as done."""
    ADMIN_DONE = 109


AS_DONE: Final = {EndCause.OWNER: EndCause.OWNER_DONE, EndCause.ADMIN: EndCause.ADMIN_DONE}
"""Why a job is killed -> the same of one that counts as done then."""
ENDS_AS_DONE: Final = frozenset(AS_DONE.values())
END_CAUSE_TEXT: Final[dict[EndCause, tuple[str, str]]] = {
    EndCause.PREEMPT: ("TERM_PREEMPT", "job killed after preemption"),
    EndCause.RUNLIMIT: ("TERM_RUNLIMIT", "job killed after reaching LSF run time limit"),
    EndCause.DEADLINE: ("TERM_DEADLINE", "job killed after deadline expires"),
    EndCause.PROCESSLIMIT: ("TERM_PROCESSLIMIT", "job killed after reaching LSF process limit"),
    EndCause.FORCE_OWNER: ("TERM_FORCE_OWNER", "job killed by owner without time for cleanup"),
    EndCause.FORCE_ADMIN: (
        "TERM_FORCE_ADMIN",
        "job killed by root or LSF administrator without time for cleanup",
    ),
    EndCause.REQUEUE_OWNER: ("TERM_REQUEUE_OWNER", "job killed and requeued by owner"),
    EndCause.REQUEUE_ADMIN: (
        "TERM_REQUEUE_ADMIN",
        "job killed and requeued by root or LSF administrator",
    ),
    EndCause.CPULIMIT: ("TERM_CPULIMIT", "job killed after reaching LSF CPU usage limit"),
    EndCause.CHKPNT: ("TERM_CHKPNT", "job killed after checkpointing"),
    EndCause.OWNER: ("TERM_OWNER", "job killed by owner"),
    EndCause.ADMIN: ("TERM_ADMIN", "job killed by root or an administrator"),
    EndCause.MEMLIMIT: ("TERM_MEMLIMIT", "job killed after reaching LSF memory usage limit"),
    EndCause.SWAP: ("TERM_SWAP", "job killed after reaching LSF swap usage limit"),
    EndCause.THREADLIMIT: ("TERM_THREADLIMIT", "job killed after reaching LSF thread limit"),
    EndCause.EXTERNAL_SIGNAL: (
        "TERM_EXTERNAL_SIGNAL",
        "job killed by a signal external to LSF",
    ),
    EndCause.CWD_NOTEXIST: (
        "TERM_CWD_NOTEXIST",
        "Current working directory is not accessible or does not exist on the execution host",
    ),
    EndCause.ORPHAN_SYSTEM: (
        "TERM_ORPHAN_SYSTEM",
        "orphaned job terminated automatically by LSF",
    ),
    EndCause.PRE_EXEC_FAIL: (
        "TERM_PRE_EXEC_FAIL",
        "Job has reached its pre-execution retry limit",
    ),
    EndCause.STATUS_LOST: (
        "TERM_STATUS_LOST",
        "the exit status was lost with the process that waited for it",
    ),
    EndCause.HOST_RESTARTED: ("TERM_HOST_RESTARTED", "the execution host was restarted"),
    EndCause.HOST_LOST: ("TERM_HOST_LOST", "the execution host was lost"),
    EndCause.START_FAILED: ("TERM_START_FAILED", "the job could not be started"),
    EndCause.OUTPUT: ("TERM_OUTPUT", "an input or output file could not be opened"),
    EndCause.TERMINAL_LOST: ("TERM_TERMINAL_LOST", "the job's terminal was lost"),
    EndCause.REQUEUE_PRE_EXEC: (
        "TERM_REQUEUE_PRE_EXEC",
        "job requeued since a pre-execution command failed",
    ),
    EndCause.REQUEUE_EXIT: ("TERM_REQUEUE_EXIT", "job requeued for its exit status"),
    EndCause.OWNER_DONE: ("TERM_OWNER", "job killed by owner"),
    EndCause.ADMIN_DONE: ("TERM_ADMIN", "job killed by root or an administrator"),
}
"""Keyword and text of each cause, as ``bjobs -l`` and the job report print them."""


class Owner(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Who submitted: always from peer credentials, never from a body."""

    user: str
    uid: int
    gid: int


class Files(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where a job's three streams go. Paths may hold ``%J`` and ``%I``; empty: not given."""

    input: str = ""
    output: str = ""
    error: str = ""
    output_append: bool = True
    """``-o`` appends, ``-oo`` overwrites."""
    error_append: bool = True
    input_blob: str = ""
    """``-is``: hash of the input that was spooled at submission; then ``input`` is its name."""


class Terminal(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How an interactive job is connected to who submitted it."""

    mode: str
    """``I``: its streams; ``Ip``: a pseudo-terminal; ``Is``: one for a shell."""
    rows: int = 0
    """Of the window at submission; 0: not known."""
    columns: int = 0
    kind: str = ""
    """``TERM`` of who submitted it."""


class JobSpec(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What runs. Immutable; identical ones are stored once in the state."""

    name: str = ""
    """As given with ``-J``, without index list; empty when not given."""
    command: str = ""
    """The command line, or a script's text on one line with ``;`` for newlines, at most 4094
    characters: what listings show."""
    script: str = ""
    """Blob hash of the whole text that runs."""
    env: str = ""
    """Blob hash of the environment: ``NAME=value`` items separated by NUL."""
    cwd: str = "/"
    files: Files = Files()
    from_host: str = ""
    home: str = ""
    umask: int = 0o022
    mem_limit_kib: int = 0
    """``-M``: for the whole job on a host, in KiB; 0: none."""
    dependency: str = ""
    """``-w`` as given."""
    requested: str = ""
    """``-R`` as given, several joined by a blank."""
    hosts_asked: str = ""
    """``-m`` as given."""
    array: str = ""
    """The index list as given, e.g. ``1-10:2,15``; empty: no array."""
    cwd_asked: str = ""
    """``-cwd`` as given; may hold patterns (``%J``, ``%I``, ...) and be relative to ``cwd``, the
    submission directory. Empty: the job runs in ``cwd``."""
    args: tuple[str, ...] = ()
    """Arguments of a script."""
    rerunnable: bool = False
    """``-r``, or the queue's word: it is started anew when its host fails."""
    roles: tuple[Role, ...] = ()
    """As a jobspec gives them; empty: the job has the parts of its request, and one command."""
    relations: tuple[Relation, ...] = ()
    gpu_asked: str = ""
    """``-gpu`` as asked for; empty: not given."""
    requests: tuple[str, ...] = ()
    """``-R``, each as given, where there are several."""
    tasks_asked: tuple[int, int] = (0, 0)
    """``-n`` as given; zeros: not given."""
    unit: str = ""
    """The unit of bare sizes in ``requested``; empty: the cluster's."""
    run_limit_asked_us: Micros = 0
    """``-W`` as given; 0: not given, so that the queue's holds."""
    terminal: Terminal | None = None
    """Of an interactive job."""
    login_shell: str = ""
    """``-L``: this shell's login files are read before; empty: none are."""
    user_group: str = ""
    """``-G``: the group of the queue's shares that the user asked to be counted in."""
    ends_as_orphan: bool = False
    """``-ti``: it ends at once when its dependency can never hold."""
    requeue_codes: tuple[int, ...] = ()
    """``-Q``: exit statuses for which it is started anew, rising."""
    requeue_elsewhere: tuple[int, ...] = ()
    """Those of them for which it does not use the same host again."""
    runs_by_roles: bool = False
    """Its roles run commands of their own, in the order that its relations give them."""
    pre_exec: str = ""
    """``-E``: runs before the job."""
    post_exec: str = ""
    """``-Ep``: runs after it, however it ended."""
    notices: int = 0
    """What its owner wants mail about, as bits of `xce.model.mail.Notice`."""
    mail_to: str = ""
    """``-u``: addresses with commas between them; empty: the owner's name."""
    warning_signal: int = 0
    """``-wa``: sent before its run limit or its deadline; 0: none."""
    warning_us: Micros = 0
    """``-wt``: so long before."""
    description: str = ""
    """``-Jd``: for people."""
    output_dir: str = ""
    """``-outdir`` as given: made before the job, relative paths of output and error lie in it; may
    hold patterns as ``cwd_asked``, and be relative to the working directory. Empty: there is none.
    """
    limits: ProcessLimits = NO_LIMITS
    """Of CPU time, swap, processes and sizes."""
    transfers: tuple[Transfer, ...] = ()
    """``-f``: files that are copied before its start and after its end."""
    checkpoints: Checkpoints | None = None
    """``-k``; None: it writes none."""
    deadline_us: Micros = 0
    """``-t``: when it is ended if it still runs, and after which it is not started; 0: never."""
    warning_command: str = ""
    """``-wa``: run in place of a signal."""

    @property
    def is_warned(self) -> bool:
        """Whether something is to happen before its run limit or its deadline."""
        return bool(self.warning_signal or self.warning_command)


class ArraySpec(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The elements of an array, and how many of them may run at once.

    ``runs`` are ``(first, last, step)``, sorted and one behind the other: each run's last index is
    smaller than the next run's first. An element's *position* counts from 0 in index order.
    """

    runs: tuple[tuple[int, int, int], ...]
    limit: int = 0
    """At most that many elements run at once; 0: no limit."""

    @property
    def count(self) -> int:
        """Number of elements."""
        return sum((last - first) // step + 1 for first, last, step in self.runs)

    def index_of(self, position: int) -> int:
        """Return the index of the element at ``position`` (0 .. count - 1)."""
        for first, last, step in self.runs:
            size = (last - first) // step + 1
            if position < size:
                return first + position * step
            position -= size
        raise IndexError(position)

    def position_from(self, index: int) -> int:
        """Return the position of the first element whose index is at least ``index``.

        ``count`` when there is none.
        """
        before = 0
        for first, last, step in self.runs:
            if index <= first:
                return before
            if index <= last:
                return before + -(-(index - first) // step)
            before += (last - first) // step + 1
        return before

    def has(self, index: int) -> bool:
        """Return whether there is an element of this index."""
        for first, last, step in self.runs:
            if first <= index <= last and (index - first) % step == 0:
                return True
        return False


class Submission(msgspec.Struct, frozen=True, array_like=True):
    """One job as a submit command carries it: parsed and typed, not yet judged."""

    spec: JobSpec
    request: Request = Request()
    queue: str = ""
    """Empty: the cluster's default queue."""
    project: str = ""
    array: ArraySpec | None = None
    hold: bool = False
    begin_at_us: Micros = 0
    run_limit_us: Micros = 0
    estimate_us: Micros = 0
    priority: int = 0
    rerunnable: bool | None = None
    """``-r`` or ``-rn``; None: as its queue has it."""
    group: str = ""
    """``-g``: the job group."""
    app: str = ""
    """``-app``: the application profile; empty: none."""
