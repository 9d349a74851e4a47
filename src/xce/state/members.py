"""Who is in which placement group: live attempts of jobs whose relations name it."""

from xce.model.constraint import Near
from xce.model.ids import JobId
from xce.model.request import Request
from xce.state.cluster import ClusterState


def groups_of(request: Request) -> tuple[str, ...]:
    """Return the groups that a request joins."""
    return tuple(
        dict.fromkeys(
            item.subject
            for item in request.constraints
            if isinstance(item, Near) and item.subject.startswith("group:")
        )
    )


def note_member(state: ClusterState, request: Request, job: JobId, position: int) -> None:
    """Note that an element was placed."""
    for group in groups_of(request):
        state.members.setdefault(group, {})[job, position] = None


def drop_member(state: ClusterState, request: Request, job: JobId, position: int) -> None:
    """Note that an element has its hosts no more."""
    for group in groups_of(request):
        members = state.members.get(group, {})
        members.pop((job, position), None)
        if not members:
            state.members.pop(group, None)
