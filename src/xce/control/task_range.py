"""How many tasks a job may have: what its queue and its application profile take."""

from xce.control.misfit import tasks_text
from xce.control.profile import find_profile
from xce.model.config import AppConfig, QueueConfig
from xce.model.job import Submission
from xce.model.refusal import Refusal, RefusalCode
from xce.model.request import TASKS_MAX, Request
from xce.state.cluster import ClusterState


def bounded(request: Request, queue: QueueConfig, app: AppConfig) -> Request:
    """Return a request with its task range cut to what queue and profile take, as LSF does.

    `check_size` has found that each alternative leaves some.
    """
    return _bounded(request, *_range_of(queue, app))


def _bounded(request: Request, least: int, most: int) -> Request:
    if request.alternatives:
        return request.with_alternatives(
            [_bounded(one.request, least, most) for one in request.alternatives]
        )
    low, high = max(request.tasks_min, least), min(request.tasks_max, most)
    if (low, high) == (request.tasks_min, request.tasks_max):
        return request
    return request.with_tasks(low, high)


def _range_of(queue: QueueConfig, app: AppConfig) -> tuple[int, int]:
    """Return the fewest and the most tasks that queue and profile take."""
    ceilings = [most for most in (queue.tasks_max, app.tasks_max) if most]
    return max(queue.tasks_min, app.tasks_min), min([*ceilings, TASKS_MAX])


def check_size(state: ClusterState, submission: Submission, queue: QueueConfig) -> Refusal | None:
    """Return why a job has too few or too many tasks; each alternative must have a number that
    queue and profile take.
    """
    request = submission.request
    if not 1 <= request.tasks_min <= request.tasks_max:
        return _too_few(f"-n {request.tasks_min},{request.tasks_max}: expected 1 <= min <= max")
    each = [one.request for one in request.alternatives] or [request]
    least, most = max(one.tasks_min for one in each), min(one.tasks_max for one in each)
    ceiling = min(queue.tasks_max or TASKS_MAX, TASKS_MAX)
    if least > ceiling or request.tasks_max > TASKS_MAX:
        return _too_many(f"{tasks_text(least)}; queue {queue.name} takes at most {ceiling}")
    if most < queue.tasks_min:
        return _too_few(f"{tasks_text(most)}; queue {queue.name} takes at least {queue.tasks_min}")
    app = find_profile(state, submission.app)
    low, high = _range_of(queue, app)
    if least > high:
        return _too_many(
            f"{tasks_text(least)}; application profile {app.name} takes at most {high}"
        )
    if most < low:
        return _too_few(f"{tasks_text(most)}; application profile {app.name} takes at least {low}")
    if low > high:
        return _too_many(
            f"application profile {app.name} and queue {queue.name} have no number of tasks that "
            f"both take: {low} and more, {high} at most"
        )
    return None


def _too_many(text: str) -> Refusal:
    return Refusal(RefusalCode.TOO_MANY_TASKS, text, lsf="Too many processors requested")


def _too_few(text: str) -> Refusal:
    return Refusal(RefusalCode.TOO_FEW_TASKS, text, lsf="Too few processors requested")
