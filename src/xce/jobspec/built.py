"""What a jobspec may say and this release does not do yet: one table, from which rows go."""

from typing import Final

from xce.jobspec.document import Spec
from xce.model.relation import LaunchType

LAUNCHES: Final = frozenset({LaunchType.TASKS, LaunchType.MPI, LaunchType.TORCH})
"""Launch types of a job with one command."""
LAUNCHES_BY_ROLES: Final = frozenset({LaunchType.MPI, LaunchType.TORCH})
"""Launch types of roles that run commands of their own."""


def find_unbuilt(spec: Spec) -> tuple[str, str]:
    """Return what a jobspec says that is not built yet, and where; two empty texts: nothing."""
    launches = LAUNCHES_BY_ROLES if spec.runs_by_roles else LAUNCHES
    for number, role in enumerate(spec.roles):
        if role.launch in launches:
            also = " of a role beside others" if spec.runs_by_roles else ""
            return f"launch type {role.launch.value}{also}", spec.role_place(number).key
    return "", ""
