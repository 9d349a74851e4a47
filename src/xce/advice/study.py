"""The whole answer about one waiting job, or about one that is only thought of."""

from typing import Final

import msgspec

from xce.advice.advise import Advice, advise, first_waiting
from xce.advice.forecast import Forecast, forecast
from xce.advice.trials import Element, Trials
from xce.control.submit import decide_submit
from xce.model.command import Accepted, SubmitJobs
from xce.model.ids import Micros
from xce.model.reason import ReasonCode
from xce.model.refusal import Refusal
from xce.state.apply import apply_records, begin_entry
from xce.state.cluster import ClusterState

_EXPECTED: Final = (
    "if running jobs end well when their run limits (or estimates) are over, and those that are "
    "over already end at once"
)
_ELSE: Final = "nothing else happens"


class Outlook(msgspec.Struct, frozen=True):
    """When a job is expected to start, and what that stands on."""

    forecast: Forecast
    assumption: str
    """Of what the instant is true, or why there is none."""


class Judged(msgspec.Struct, frozen=True):
    """What would become of a submission."""

    refusal: Refusal | None = None
    accepted: Accepted | None = None


def judge(state: ClusterState, command: SubmitJobs, now_us: Micros) -> tuple[Judged, Element]:
    """Submit one job to a state that is a copy; return what became of it, and its first element."""
    now_us = max(now_us, state.now_us)
    records, (result,) = decide_submit(state, command, now_us)
    if isinstance(result, Refusal):
        return Judged(refusal=result), (0, 0)
    begin_entry(state, seq=state.seq + 1, at_us=now_us)
    apply_records(state, records)
    index = first_waiting(state.jobs[result.job])
    assert index is not None, "a job that was just submitted waits"
    return Judged(accepted=result), (result.job, index)


def study(state: ClusterState, element: Element, now_us: Micros) -> Advice:
    """Return what would let an element start; the state is only read."""
    return advise(Trials(state, now_us), element)


def foresee(state: ClusterState, element: Element, advice: Advice, now_us: Micros) -> Outlook:
    """Return when an element is expected to start; the state is used up."""
    if advice.start is not None:
        found = Forecast(max(now_us, state.now_us), advice.start)
        return Outlook(found, "as things are, the next session starts it")
    if advice.reason.unsatisfiable:
        return Outlook(Forecast(), "it could never run on this cluster as it is")
    if advice.reason.code is ReasonCode.HELD:
        return Outlook(Forecast(), "it is held: it starts only after it is released")
    if advice.reason.code is ReasonCode.QUEUE_CLOSED:
        return Outlook(Forecast(), f"queue {advice.reason.resource} starts nothing now")
    if advice.reason.code is ReasonCode.DEPENDENCY_NEVER:
        return Outlook(Forecast(), "its dependency can never be satisfied")
    found = forecast(state, element, now_us)
    return Outlook(found, _assumption(found, advice))


def _assumption(found: Forecast, advice: Advice) -> str:
    ahead = advice.blockage.ahead
    if found.is_cut:
        return (
            "so much happens before it that it was not followed to its start; it does not start "
            f"before, {_EXPECTED}, and {_ELSE}"
        )
    if not found.at_us:
        return _unknown(advice, found)
    before = ""
    if ahead:
        before = f", the {'job' if ahead == 1 else f'{ahead} jobs'} in front of it too"
    return f"{_EXPECTED}{before}, those that wait start in their turn where they fit, and {_ELSE}"


def _unknown(advice: Advice, found: Forecast) -> str:
    blockage = advice.blockage
    if advice.waits_for:
        return "it is not known when the jobs that it waits for will have ended"
    endless = [one for one in blockage.blockers if not one.ends_at_us]
    if endless:
        one = endless[0]
        name = f"{one.job}[{one.index}]" if one.index else str(one.job)
        more = f" and {len(endless) - 1} more" if len(endless) > 1 else ""
        have = "have" if more else "has"
        return f"job {name}{more} must end first and {have} no run limit and no estimate"
    if blockage.ahead:
        jobs = "job" if blockage.ahead == 1 else f"{blockage.ahead} jobs"
        return f"it is not known when the {jobs} in front of it will have started and ended"
    if advice.reason.code is ReasonCode.ARRAY_LIMIT:
        return "it is not known when enough elements of the array will have ended"
    if found.ends:
        return (
            "what is expected to end does not let it start, and nothing is known of the rest: jobs "
            "without a run limit, jobs that are suspended, hosts that are away or closed"
        )
    return "nothing that is known of lets it start"
