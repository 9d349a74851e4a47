"""Application profiles: whether there is one of a name, and whether a job keeps its limits.

A profile counts when a job is submitted or changed; what it says of exit statuses counts when the
job ends.
"""

from xce.model.config import AppConfig
from xce.model.job import Submission
from xce.model.process_limits import find_above, render_limit
from xce.model.refusal import Refusal, RefusalCode
from xce.model.request import TASKS_MAX
from xce.model.units import render_span
from xce.state.cluster import ClusterState

NO_PROFILE = AppConfig(name="")


def find_profile(state: ClusterState, name: str) -> AppConfig:
    """Return the profile of a name; without one, or where it is gone, one that says nothing."""
    return state.apps.get(name, NO_PROFILE)


def refuse_profile(name: str, known: list[str]) -> Refusal:
    """Return the refusal of a profile that is not there."""
    there = ", ".join(sorted(known)) or "none"
    text = f"no application profile is called {name!r}; known are: {there}"
    return Refusal(RefusalCode.UNKNOWN_APP, text, lsf="No such application profile")


def check_profile(state: ClusterState, submission: Submission) -> Refusal | None:
    """Return why a job does not fit its application profile; None: it does."""
    name = submission.app
    if not name:
        return None
    if name not in state.apps:
        return refuse_profile(name, list(state.apps))
    app, of = state.apps[name], f"application profile {name}"
    if app.run_limit_us and submission.run_limit_us > app.run_limit_us:
        allowed = render_span(app.run_limit_us)
        text = f"run limit {render_span(submission.run_limit_us)}; {of} allows {allowed}"
        return Refusal(RefusalCode.OVER_APP_LIMIT, text)
    wanted_mib = -(-submission.spec.mem_limit_kib // 1024)
    if app.mem_limit_mib and wanted_mib > app.mem_limit_mib:
        text = f"memory limit {wanted_mib} MiB; {of} allows {app.mem_limit_mib} MiB"
        return Refusal(RefusalCode.OVER_APP_LIMIT, text)
    above = find_above(submission.spec.limits, app.limits)
    if above is not None:
        wanted = render_limit(submission.spec.limits, above)
        text = f"{wanted}; {of} allows {render_limit(app.limits, above)}"
        return Refusal(RefusalCode.OVER_APP_LIMIT, text)
    request = submission.request
    if request.tasks_min > (app.tasks_max or TASKS_MAX):
        text = f"{request.tasks_min} tasks; {of} takes at most {app.tasks_max}"
        return Refusal(RefusalCode.TOO_MANY_TASKS, text, lsf="Too many processors requested")
    if request.tasks_max < app.tasks_min:
        text = f"{request.tasks_max} tasks; {of} takes at least {app.tasks_min}"
        return Refusal(RefusalCode.TOO_FEW_TASKS, text, lsf="Too few processors requested")
    return None
