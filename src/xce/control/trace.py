"""`StartTrace` and `StopTrace` to records: of what sessions tell, for whom and for how long."""

from xce.model.command import Accepted, StartTrace, StopTrace
from xce.model.ids import JobId, Micros
from xce.model.record import Record
from xce.model.refusal import Refusal, RefusalCode
from xce.model.trace import (
    RULES_MAX,
    SESSIONS_MAX,
    SPAN_US_MAX,
    TraceKind,
    TraceRule,
    TracesChanged,
)
from xce.model.units import render_span
from xce.state.cluster import ClusterState

OWN_RULES_MAX = 10
"""Rules of one user who is no administrator."""


def decide_start(
    state: ClusterState, command: StartTrace, now_us: Micros
) -> tuple[list[Record], list[Accepted | Refusal]]:
    """Return the record of a new rule; one about the same by the same user ends."""
    refusal = _refuse(state, command)
    if refusal is not None:
        return [], [refusal]
    same = tuple(
        rule.number
        for rule in state.traces.values()
        if (rule.by, rule.kind, rule.job, rule.name)
        == (command.by, command.kind, command.job, command.name)
    )
    own = sum(rule.by == command.by for rule in state.traces.values())
    for found, most, whose in (
        (len(state.traces), RULES_MAX, "the cluster's"),
        (0 if command.is_admin else own, OWN_RULES_MAX, f"{command.by}'s"),
    ):
        if found - len(same) >= most:
            text = f"{whose} {found} rules of what is traced are in effect; end one first"
            return [], [Refusal(RefusalCode.WRONG_STATE, text)]
    rule = TraceRule(
        state.next_trace,
        command.kind,
        now_us + command.for_us,
        command.by,
        command.job,
        command.name,
        command.sessions,
    )
    done = Accepted(command.job, text="traced", number=rule.number, at_us=rule.until_us)
    return [TracesChanged((rule,), same)], [done]


def _refuse(state: ClusterState, command: StartTrace) -> Refusal | None:
    code = RefusalCode.BAD_REQUEST
    if not 0 < command.for_us <= SPAN_US_MAX:
        return Refusal(code, f"a rule lasts from 1s to {render_span(SPAN_US_MAX)}")
    if command.kind is TraceKind.JOB:
        return _refuse_job(state, command, command.job)
    if not command.is_admin:
        text = "only administrators trace more than a job of their own"
        return Refusal(RefusalCode.DENIED, text, lsf="User permission denied")
    if command.kind is TraceKind.SESSION:
        if not 1 <= command.sessions <= SESSIONS_MAX:
            return Refusal(code, f"sessions: expected a number from 1 to {SESSIONS_MAX}")
        return None
    if not command.name:
        return Refusal(code, f"no {command.kind} is named")
    if command.kind is TraceKind.QUEUE and command.name not in state.queues:
        text = f"no queue is called {command.name!r}"
        return Refusal(RefusalCode.UNKNOWN_QUEUE, text, lsf=f"{command.name}: No such queue")
    return None


def _refuse_job(state: ClusterState, command: StartTrace, job_id: JobId) -> Refusal | None:
    job = state.jobs.get(job_id)
    if job is None:
        text = f"no job has the id {job_id}"
        return Refusal(RefusalCode.UNKNOWN_JOB, text, lsf=f"Job <{job_id}> is not found")
    if not command.is_admin and job.owner.user != command.by:
        return Refusal(
            RefusalCode.NOT_YOURS,
            f"job {job_id} belongs to {job.owner.user}",
            lsf="User permission denied",
            job=job_id,
        )
    if job.is_finished:
        text = f"job {job_id} has already finished"
        lsf = "Job has already finished"
        return Refusal(RefusalCode.ALREADY_FINISHED, text, lsf=lsf, job=job_id)
    return None


def decide_stop(
    state: ClusterState, command: StopTrace
) -> tuple[list[Record], list[Accepted | Refusal]]:
    """Return the record that ends rules, and a result for each."""
    results: list[Accepted | Refusal] = []
    stopped: list[int] = []
    own = [n for n, rule in sorted(state.traces.items()) if _may_stop(command, rule)]
    for number in dict.fromkeys(command.rules or own):
        rule = state.traces.get(number)
        if rule is None:
            text = f"no rule of what is traced has the number {number}"
            results.append(Refusal(RefusalCode.UNKNOWN_RULE, text))
        elif not _may_stop(command, rule):
            text = f"rule {number} belongs to {rule.by}"
            results.append(Refusal(RefusalCode.DENIED, text, lsf="User permission denied"))
        else:
            stopped.append(number)
            results.append(Accepted(rule.job, text="not-traced", number=number))
    return [TracesChanged(stopped=tuple(stopped))] if stopped else [], results


def _may_stop(command: StopTrace, rule: TraceRule) -> bool:
    return command.is_admin or rule.by == command.by


def decide_expired(state: ClusterState, now_us: Micros) -> list[Record]:
    """Return the end of rules that have run out."""
    over = tuple(n for n, rule in sorted(state.traces.items()) if rule.until_us <= now_us)
    return [TracesChanged(stopped=over)] if over else []
