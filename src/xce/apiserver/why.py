"""Why a job is where it is: its reasons, one sentence, and what could be done next."""

from collections.abc import Sequence

import msgspec

from xce.apiserver.advice_rows import AdviceRow
from xce.apiserver.reason_rows import ReasonRow
from xce.apiserver.rows import Element
from xce.apiserver.subject import Subject
from xce.model.reason import HostCode, ReasonCode


class WhyAnswer(msgspec.Struct, frozen=True):
    """Why a job is where it is."""

    jobid: int
    stat: str
    reasons: list[ReasonRow]
    """Why it pends; empty for one that does not."""
    sentence: str
    next: list[str]
    """What could be done about it."""
    advice: AdviceRow | None = None
    """Of a job that waits: what would let it start, who is in its way, and when it is expected
    to start. Of an array: of the first of its elements that wait."""


_NEXT = {
    ReasonCode.HELD: "bresume {job} releases it",
    ReasonCode.DEPENDENCY: "it starts by itself when the condition holds; xcecli info {job} shows "
    "the condition",
    ReasonCode.DEPENDENCY_NEVER: "submit it again with another condition (-w)",
    ReasonCode.ARRAY_LIMIT: "elements start as others end; the limit stands behind % in -J",
    ReasonCode.QUEUE_CLOSED: "choose another queue: bqueues lists those that are active",
    ReasonCode.SPAN: "ask for less by {what}, or leave it out, or wait until hosts come free",
    ReasonCode.FIRST_HOST: "wait until hosts come free, or name more hosts with ! in -m",
    ReasonCode.JOB_GROUP_LIMIT: "it starts as others of the group end; bgmod -L sets the limit",
    ReasonCode.POOL: "it starts when enough of the pool comes free",
    ReasonCode.AHEAD: "wait; a shorter run limit (-W) or a smaller request may fit earlier",
    ReasonCode.HOSTS: "wait until jobs end; bhosts shows what is in use",
    ReasonCode.NO_HOSTS: "an administrator must start a worker; bhosts lists the hosts",
}
_AVOIDED = (
    "these hosts are tried again after a while; an administrator mends the cause (xce logs "
    "worker-HOST) and lets it be tried at once: xceadmin hosts open HOST; one that the job's exit "
    "status excluded (EXCLUDE of bsub -Q) is not used again"
)
_UNSATISFIABLE = "ask for less (bhosts -l shows what hosts have), then submit it again"


def explain(subject: Subject) -> WhyAnswer:
    """Return why the job or element is where it is."""
    elements = subject.elements()
    label = str(subject.job_id) if subject.index < 1 else f"{subject.job_id}[{subject.index}]"
    reasons: list[ReasonRow] = []
    for element in elements:
        if element.reason is not None and element.reason not in reasons:
            reasons.append(element.reason)
    stats = list(dict.fromkeys(element.stat for element in elements))
    stat = stats[0] if len(stats) == 1 else ""
    sentence = _sentence(label, elements, reasons)
    if any(is_avoided(reason) for reason in reasons):
        sentence = " ".join([sentence, *subject.launch_faults()])
    return WhyAnswer(
        jobid=subject.job_id,
        stat=stat,
        reasons=reasons,
        sentence=sentence,
        next=_next(label, elements, reasons),
    )


def is_avoided(reason: ReasonRow) -> bool:
    """Return whether hosts are avoided after a start that failed there."""
    return any(item.code == HostCode.AVOIDED for item in reason.hosts)


def _sentence(label: str, elements: Sequence[Element], reasons: list[ReasonRow]) -> str:
    if reasons:
        waiting = sum(e.count for e in elements if e.reason is not None)
        what = f"Job {label}" if waiting == 1 else f"{waiting} elements of job {label}"
        verb = "pends" if waiting == 1 else "pend"
        return f"{what} {verb}: {'; '.join(reason.text for reason in reasons)}."
    if len(elements) != 1:
        return f"Job {label} is an array; no element pends."
    return f"Job {label} {_state(elements[0])}."


_STOPS = {
    "window": "the run windows of its queue are closed",
    "load": "the load of its host is beyond load_stop of its queue",
    "preempted": "a job of a queue that may preempt has its room",
}


def _state(element: Element) -> str:
    """Return the state of an element that does not pend, as the rest of a sentence."""
    where = ", ".join(f"{name} ({slots})" for name, slots in element.hosts)
    match element.stat:
        case "RUN":
            return f"runs on {where}" + (" and is being ended" if element.ending else "")
        case "UNKWN":
            return f"runs on {where}, which is away: nobody can say how it is"
        case "ZOMBI":
            return f"shall end on {where}, which is away"
        case "USUSP":
            return f"is suspended on {where}"
        case "SSUSP":
            return f"is suspended on {where} by the cluster: {_STOPS.get(element.stop, '')}"
        case "DONE":
            return "is done"
        case _:
            text = element.cause_text or f"exit code {element.exit_code}"
            by = f" by {element.ended_by}" if element.ended_by else ""
            detail = f" ({element.detail})" if element.detail else ""
            return f"has ended{by}: {text}{detail}"


def _next(label: str, elements: Sequence[Element], reasons: list[ReasonRow]) -> list[str]:
    found: dict[str, None] = {}
    for reason in reasons:
        if reason.unsatisfiable:
            found[_UNSATISFIABLE] = None
        elif is_avoided(reason):
            found[_AVOIDED] = None
        elif reason.code in _NEXT:
            found[
                _NEXT[ReasonCode(reason.code)].format(job=label, what=reason.resource or "span[]")
            ] = None
    stats = {element.stat for element in elements}
    if stats & {"UNKWN", "ZOMBI"}:
        found["wait: the host comes back, or is given up (host_grace_s)"] = None
        found[f"bkill -r {label} removes it without waiting for the host"] = None
    if stats & {"USUSP"}:
        found[f"bresume {label} lets it go on"] = None
    if stats & {"EXIT"} and not reasons and any(e.start_at is not None for e in elements):
        found[f"xcecli output {label} shows what it wrote"] = None
    return list(found)
