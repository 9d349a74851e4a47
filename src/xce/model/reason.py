"""Every pend reason: a value with a code, a cure and numbers; rendered only for people.

A reason of a request class comes from the session that tried it. What differs inside a class
(hold, begin time, dependency, array limit) is read off the job, never stored.
"""

import enum
from typing import Final

import msgspec

from xce.model.ids import Micros
from xce.model.units import render_milli, render_span


class ReasonCode(enum.StrEnum):
    """Stable codes, never renamed, never given a new meaning."""

    NEW = "new"
    HELD = "held"
    BEGIN_TIME = "begin-time"
    DEPENDENCY = "dependency"
    DEPENDENCY_NEVER = "dependency-never"
    ARRAY_LIMIT = "array-limit"
    QUEUE_CLOSED = "queue-inactive"
    HOSTS = "hosts"
    """No set of hosts can run it now; ``host_reasons`` tells why, host by host."""
    SPAN = "span"
    """Enough in all, but not where ``span[]`` wants it; or what ``resource`` says in its place:
    ``same[]``, or ``-nnodes``, which wants hosts, or with a ``detail`` slots on so many."""
    POOL = "pool-short"
    """``detail`` is ``hosts`` where it would last for fewer tasks, as on smaller hosts."""
    AHEAD = "others-ahead"
    """It fits, but what is free goes to jobs in front."""
    RESERVED = "slots-reserved"
    """It fits, but would delay a job in front that holds a reservation: ``detail`` names it."""
    WINDOW = "window-closed"
    """The run windows of its queue are closed; ``at_us``: when one opens, if it is known."""
    DEADLINE = "window-too-short"
    """It would still run when the run window of its queue closes."""
    PREEMPTING = "preempting"
    """Others give way for it; it starts when they are gone."""
    REQUEUED = "requeued"
    NO_HOSTS = "no-hosts"
    DOMAINS = "domains"
    """Enough in all, but not in the domains where ``cu[]`` wants it."""
    PARTS = "parts"
    """Not all parts of a compound request fit together; ``under`` tells of those that do not fit
    even alone."""
    ALTERNATIVES = "alternatives"
    """None of the alternatives fits; ``under`` tells why, one by one."""
    DELAY = "alternative-delay"
    """No alternative of it may be tried yet."""
    RELATION = "relation"
    """What a relation wants is not free: ``role`` lacks ``needed`` in any one ``resource`` (a level
    of domains); the best domain is ``detail`` with ``available``."""
    JOB_GROUP_LIMIT = "job-group-limit"
    """As many elements of the job group ``resource`` run as its limit allows."""
    SEARCH = "search-bound"
    """None was found within the bounds of the search, though there may be a placement."""
    FIRST_HOST = "first-host"
    """Enough in all, but not beginning on a host that ``-m`` names with ``!``."""


class HostCode(enum.StrEnum):
    """Why hosts could not take (enough of) a request."""

    SLOTS_BUSY = "slots-busy"
    AMOUNT_SHORT = "amount-short"
    SELECT = "select"
    NOT_ASKED = "not-asked"
    NOT_IN_QUEUE = "not-in-queue"
    """Not among the hosts of the job's queue."""
    CLOSED = "closed"
    UNREACHABLE = "unreachable"
    EXCLUSIVE = "exclusive"
    """Others use it, and the request wants it alone."""
    TAKEN = "taken"
    """Another job has it for itself."""
    TOO_SMALL = "too-small"
    """Could not take one task of it even when empty."""
    AVOIDED = "avoided"
    """An earlier attempt failed there through the host's fault."""
    THRESHOLD = "threshold"
    """The present value of ``resource`` is beyond the threshold of rusage[]."""
    LOAD = "load"
    """The load index ``resource`` is worse there than the queue allows."""
    NO_VALUE = "no-value"
    """Has no value of ``resource``, which same[] names."""
    NO_DEVICE = "no-device"
    """Has not the GPUs that are wanted, used or not; ``resource``: which."""
    DEVICE_CLOSED = "device-closed"
    """Has them, but too many are closed or gone."""
    DEVICES_BUSY = "devices-busy"
    """Too few of its GPUs are free. Where ``resource`` is ``milli``, amounts are thousandths."""
    DEVICES_SPLIT = "devices-split"
    """Enough is free, but in pieces: in several NVLink domains, or shares of several GPUs."""
    PROCESSORS_UNKNOWN = "processors-unknown"
    """Nobody has told which processors it has."""
    NO_PROCESSORS = "no-processors"
    """Has not the processors that affinity[] wants, used or not."""
    PROCESSORS_BUSY = "processors-busy"
    """Too few of its processors are free, or not so that affinity[] is met."""
    NO_DOMAIN = "no-domain"
    """Lies in no domain of the level ``resource``."""


class Wake(enum.StrEnum):
    """Kinds of change that can cure a reason; each record names those that it brings."""

    CAPACITY = "capacity"
    """Amounts came free on hosts, or a host joined, opened or grew."""
    POOL = "pool"
    PENDING = "pending"
    """New eligible work: a submit, a release, a requeue, a raised limit."""
    CONFIG = "config"
    RESERVATION = "reservation"
    """Who holds a reservation, or when what runs is expected to end."""
    LOAD = "load"
    """What hosts measure of their load."""


class HostReason(msgspec.Struct, frozen=True, array_like=True):
    """One line of the table "why not these hosts"."""

    code: HostCode
    hosts: int
    """How many hosts it excludes; a host is counted once, under its first reason."""
    resource: str = ""
    needed: int = 0
    """Of ``resource`` (or slots), for one task, in base units."""
    best: int = 0
    """The most that any of these hosts has free."""


class Reason(msgspec.Struct, frozen=True, array_like=True):
    """Why a job pends."""

    code: ReasonCode
    host_reasons: tuple[HostReason, ...] = ()
    resource: str = ""
    needed: int = 0
    available: int = 0
    at_us: Micros = 0
    unsatisfiable: bool = False
    """It could not run on this cluster even if all of it were idle."""
    detail: str = ""
    role: str = ""
    """Of a reason under another one: the part or alternative that it is about."""
    under: tuple["Reason", ...] = ()
    """Reasons of parts or alternatives."""
    relation: str = ""
    """Of what a relation wants: ``colocate``, ``spread``, ``near``, ``apart``, ``exclusive``, or
    ``job``: one that it must be near to has no hosts yet."""
    subject: str = ""
    """The role that it is about."""
    near: str = ""
    """What it must be with, or apart from."""
    domains: int = 0
    """How many domains of the level could take some of it."""
    each: str = ""
    """What each task needs beside its slot."""


NEW: Final = Reason(ReasonCode.NEW)

_LSF: Final[dict[ReasonCode, str]] = {
    ReasonCode.NEW: "New job is waiting for scheduling",
    ReasonCode.HELD: "The job was suspended by the user while pending",
    ReasonCode.BEGIN_TIME: "The job has a specified start time",
    ReasonCode.DEPENDENCY: "Job dependency condition not satisfied",
    ReasonCode.DEPENDENCY_NEVER: "Dependency condition invalid or never satisfied",
    ReasonCode.ARRAY_LIMIT: "The job array has reached its running element limit",
    ReasonCode.QUEUE_CLOSED: "The queue is inactivated by the administrator",
    ReasonCode.SPAN: "Not enough processors to meet the job's spanning requirement",
    ReasonCode.FIRST_HOST: "Not enough processors to meet the job's spanning requirement",
    ReasonCode.AHEAD: "Not enough job slot(s)",
    ReasonCode.RESERVED: "Not enough slots or resources for whole duration of the job",
    ReasonCode.WINDOW: "The queue is inactivated by its time windows",
    ReasonCode.DEADLINE: "Job will not finish before queue's run window is closed",
    ReasonCode.PREEMPTING: "Waiting for preempted jobs to release their slots",
    ReasonCode.REQUEUED: "Requeued job is waiting for rescheduling",
    ReasonCode.NO_HOSTS: "Not enough host(s) currently eligible",
    ReasonCode.DOMAINS: "Not enough processors to meet the job's compute unit requirement",
    ReasonCode.PARTS: "Not enough hosts to meet the job's compound resource requirement",
    ReasonCode.ALTERNATIVES: "Job's alternative resource requirements not satisfied",
    ReasonCode.DELAY: "Job's alternative resource requirements not satisfied",
    ReasonCode.RELATION: "Not enough hosts to meet the job's compound resource requirement",
    ReasonCode.SEARCH: "Not enough hosts to meet the job's resource requirement",
    ReasonCode.JOB_GROUP_LIMIT: "The specified job group has reached its job limit",
}
_LSF_GPU: Final = "Job's requirements for reserving resource (ngpus_physical) not satisfied"
_LSF_HOST: Final[dict[HostCode, str]] = {
    HostCode.SLOTS_BUSY: "Not enough job slot(s)",
    HostCode.SELECT: "Job's resource requirements not satisfied",
    HostCode.NOT_ASKED: "Not specified in job submission",
    HostCode.NOT_IN_QUEUE: "Not usable to the queue",
    HostCode.CLOSED: "Closed by LSF administrator",
    HostCode.UNREACHABLE: "Unable to reach slave batch server",
    HostCode.EXCLUSIVE: "Job's requirement for exclusive execution not satisfied",
    HostCode.TAKEN: "Running an exclusive job",
    HostCode.TOO_SMALL: "Job's resource requirements not satisfied",
    HostCode.AVOIDED: "Unable to start the job on the host",
    HostCode.THRESHOLD: "Load threshold reached",
    HostCode.LOAD: "Load threshold reached",
    HostCode.NO_VALUE: "Job's resource requirements not satisfied",
    HostCode.NO_DOMAIN: "Job's resource requirements not satisfied",
    HostCode.PROCESSORS_UNKNOWN: "Affinity resource requirement cannot be met",
    HostCode.NO_PROCESSORS: "Affinity resource requirement cannot be met",
    HostCode.PROCESSORS_BUSY: "Affinity resource requirement cannot be met",
    HostCode.NO_DEVICE: "Job's resource requirements not satisfied",
    HostCode.DEVICE_CLOSED: "Job's resource requirements not satisfied",
    HostCode.DEVICES_BUSY: _LSF_GPU,
    HostCode.DEVICES_SPLIT: _LSF_GPU,
}
_OUT_OF_QUESTION: Final = frozenset(
    (
        HostCode.SELECT, HostCode.NOT_ASKED, HostCode.NOT_IN_QUEUE, HostCode.CLOSED,
        HostCode.UNREACHABLE, HostCode.TOO_SMALL, HostCode.AVOIDED, HostCode.NO_VALUE,
        HostCode.NO_DOMAIN, HostCode.NO_DEVICE, HostCode.DEVICE_CLOSED,
        HostCode.PROCESSORS_UNKNOWN, HostCode.NO_PROCESSORS,
    )
)  # fmt: skip
"""Why hosts could not take it even if nothing ran on them: to LSF they are no candidates."""
_PLAIN_HOST: Final[dict[HostCode, str]] = {
    HostCode.SELECT: "excluded by select[]",
    HostCode.NOT_ASKED: "not among the hosts asked for",
    HostCode.NOT_IN_QUEUE: "not among the queue's hosts",
    HostCode.CLOSED: "closed by the administrator",
    HostCode.UNREACHABLE: "unreachable",
    HostCode.EXCLUSIVE: "used by other jobs, and this one wants hosts of its own",
    HostCode.TAKEN: "taken by an exclusive job",
    HostCode.AVOIDED: "avoided after a failed start",
    HostCode.THRESHOLD: "beyond the threshold of {resource} in rusage[]",
    HostCode.LOAD: "beyond the queue's threshold of {resource}",
    HostCode.NO_VALUE: "without a value of {resource}, which same[] names",
    HostCode.NO_DOMAIN: "in no {resource}",
    HostCode.DEVICE_CLOSED: "whose GPUs are closed",
    HostCode.PROCESSORS_UNKNOWN: "not telling which processors there are",
    HostCode.NO_PROCESSORS: "without the processors that affinity[{resource}] wants",
    HostCode.PROCESSORS_BUSY: "whose free processors are not as affinity[{resource}] wants them",
}


def render_lsf(reason: Reason) -> tuple[str, ...]:
    """Return the lines that ``bjobs -l`` and ``-p`` print, each without its final ``;``."""
    if reason.code is ReasonCode.HELD and reason.detail:
        return ("The job was suspended by LSF admin or root while pending",)
    if reason.code is ReasonCode.POOL:
        return (f"Job's requirements for reserving resource ({reason.resource}) not satisfied",)
    lines = [_LSF[reason.code]] if reason.code in _LSF else []
    counts: dict[str, int] = {}
    for item in reason.host_reasons:
        text = render_lsf_host(item)
        counts[text] = counts.get(text, 0) + item.hosts
    lines += [f"{text}: {n} host{'' if n == 1 else 's'}" for text, n in counts.items()]
    for part in reason.under:
        lines.extend(line for line in render_lsf(part) if line not in lines)
    if not lines and reason.code is ReasonCode.HOSTS:
        return ("Not enough job slot(s)",)
    return tuple(lines) or (_LSF[ReasonCode.NEW],)


def render_lsf_host(item: HostReason) -> str:
    """Return LSF's words for a host reason, without its number of hosts."""
    if item.code is HostCode.AMOUNT_SHORT:
        return f"Job's requirements for reserving resource ({item.resource}) not satisfied"
    return _LSF_HOST[item.code]


def is_candidate(item: HostReason) -> bool:
    """Return whether its hosts could take a task of it, were what is in use free."""
    return item.code not in _OUT_OF_QUESTION


def render_host_reason(item: HostReason) -> str:
    """Return one host reason in plain words with its numbers."""
    count = f"{item.hosts} host{'' if item.hosts == 1 else 's'}"
    if item.code is HostCode.SLOTS_BUSY:
        return f"{count} busy (needs {item.needed} slots, most free on one is {item.best})"
    if item.code is HostCode.AMOUNT_SHORT:
        return f"{count} short of {item.resource} (needs {item.needed}, best has {item.best})"
    if item.code is HostCode.TOO_SMALL:
        return f"{count} too small (needs {item.needed} {item.resource}, best has {item.best})"
    if item.code in _DEVICES:
        return f"{count} {_render_devices(item)}"
    return f"{count} {_PLAIN_HOST[item.code].format(resource=item.resource)}"


_DEVICES: Final = (HostCode.NO_DEVICE, HostCode.DEVICES_BUSY, HostCode.DEVICES_SPLIT)


def _render_devices(item: HostReason) -> str:
    if item.code is HostCode.NO_DEVICE:
        kind = f" {item.resource}" if item.resource else ""
        return f"without {render_gpus(item.needed)}{kind} (the most of that kind is {item.best})"
    needed, best = str(item.needed), str(item.best)
    if item.resource == "milli":
        needed, best = render_milli(item.needed), render_milli(item.best)
    if item.code is HostCode.DEVICES_SPLIT:
        return f"with GPUs free only in pieces (needs {needed}, most in one piece is {best})"
    return f"with GPUs busy (needs {needed}, most free on one is {best})"


def render_gpus(count: int) -> str:
    """Return a number of GPUs."""
    return f"{count} GPU" if count == 1 else f"{count} GPUs"


def render_plain(reason: Reason, *, now_us: Micros) -> str:
    """Return one sentence for people with the numbers that decided it."""
    table = "; ".join(render_host_reason(item) for item in reason.host_reasons)
    text = _plain_head(reason, now_us)
    if reason.unsatisfiable:
        text = f"unsatisfiable: it could never run on this cluster as it is; {text}"
    text = f"{text}: {table}" if table else text
    inner = "; ".join(f"{item.role}: {render_plain(item, now_us=now_us)}" for item in reason.under)
    return f"{text} ({inner})" if inner else text


_PLAIN: Final[dict[ReasonCode, str]] = {
    ReasonCode.NEW: "waiting for the next scheduling session",
    ReasonCode.HELD: "held (bresume releases it)",
    ReasonCode.DEPENDENCY: "waits for its dependency condition {detail}",
    ReasonCode.DEPENDENCY_NEVER: "its dependency condition {detail} can never be satisfied",
    ReasonCode.ARRAY_LIMIT: "the array runs at its limit of {needed} elements",
    ReasonCode.QUEUE_CLOSED: "queue {resource} is inactive",
    ReasonCode.SPAN: "no hosts meet {resource} (needs {needed} slots, {available} usable)",
    ReasonCode.FIRST_HOST: "no host that -m wants first (name!) has room with others beside it"
    " (needs {needed} slots, {available} usable in all)",
    ReasonCode.POOL: "pool {resource} is short (needs {needed}, {available} free)",
    ReasonCode.AHEAD: "what is free goes to jobs in front of it",
    ReasonCode.RESERVED: "it would delay job {detail}, which is in front and has a reservation",
    ReasonCode.DEADLINE: "it would still run when the run window of queue {resource} closes",
    ReasonCode.PREEMPTING: "others give way for it; it starts when they are gone",
    ReasonCode.REQUEUED: "requeued, waiting for the next scheduling session",
    ReasonCode.NO_HOSTS: "no host has joined the cluster",
    ReasonCode.DOMAINS: "no {resource} has room as cu[] wants it (needs {needed} slots, {available}"
    " usable in all)",
    ReasonCode.PARTS: "its parts do not fit together (needs {needed} slots)",
    ReasonCode.ALTERNATIVES: "none of its alternatives fits",
    ReasonCode.DELAY: "none of its alternatives may be tried yet",
    ReasonCode.JOB_GROUP_LIMIT: "job group {resource} runs at its limit of {needed} jobs",
    ReasonCode.SEARCH: "no placement was found within the bounds of the search (needs {needed}"
    " slots), though there may be one",
}


_LEVEL_WORDS: Final = {"nvlink": "NVLink domain"}


def _render_relation(reason: Reason) -> str:
    """Return what a relation wants and does not find: of which role, of how many, where."""
    level = _LEVEL_WORDS.get(reason.resource, reason.resource)
    who = f"{reason.subject}: " if reason.subject else ""
    if reason.relation == "job":
        return f"waits for {reason.detail} to get hosts, near which it shall be"
    near = f" near {reason.near}" if reason.near else ""
    count = f"{reason.domains} {plural(level, reason.domains)}"
    have = "has" if reason.domains == 1 else "have"
    best = f"; best is {reason.detail} with {reason.available}" if reason.detail else ""
    each = f"needs {reason.needed} x {reason.each}; " if reason.each else ""
    match reason.relation:
        case "colocate":
            return (
                f"{who}no {level} with {reason.needed} free{near} ({each}{count} {have} room for "
                f"any{best})"
            )
        case "spread":
            return (
                f"{who}no {reason.needed} free with at most {reason.near} in one {level} ({each}"
                f"{reason.available} fit, over {count})"
            )
        case "apart":
            return (
                f"{who}no {reason.needed} free in a {level} without {reason.near} ({each}"
                f"{reason.available} fit there)"
            )
        case "exclusive":
            return (
                f"{who}no {reason.needed} free in a {level} without other jobs ({each}"
                f"{reason.available} fit there)"
            )
        case _:
            return (
                f"{who}no {reason.needed} free in a {level} of {reason.near} ({each}"
                f"{reason.available} fit there)"
            )


def plural(level: str, count: int) -> str:
    """Return the name of a level for so many domains."""
    if count == 1:
        return level
    return f"{level}es" if level.endswith(("s", "x", "ch", "sh")) else f"{level}s"


def _plain_head(reason: Reason, now_us: Micros) -> str:
    if reason.code is ReasonCode.BEGIN_TIME:
        return f"its begin time is in {render_span(reason.at_us - now_us)}"
    if reason.code is ReasonCode.WINDOW:
        when = f"; one opens in {render_span(reason.at_us - now_us)}" if reason.at_us else ""
        return f"the run windows of queue {reason.resource} are closed{when}"
    if reason.code is ReasonCode.RELATION:
        return _render_relation(reason)
    if reason.code is ReasonCode.HELD and reason.detail:
        return f"held by an {reason.detail}, who must release it (bresume)"
    if reason.code is ReasonCode.SPAN and reason.resource == "-nnodes":
        much = f"(needs {reason.needed}, {reason.available} usable)"
        if reason.detail:
            return f"as many hosts as -nnodes wants have too few slots together {much}"
        return f"too few hosts can be taken whole, as -nnodes wants them {much}"
    if reason.code is ReasonCode.HOSTS:
        if not reason.needed:
            return "no host can take it now"
        when = "on all hosts together" if reason.unsatisfiable else "usable now"
        return f"needs {reason.needed} slots, {reason.available} {when}"
    return _PLAIN[reason.code].format(
        detail=reason.detail,
        needed=reason.needed,
        available=reason.available,
        resource=reason.resource or ("span[]" if reason.code is ReasonCode.SPAN else ""),
    )
