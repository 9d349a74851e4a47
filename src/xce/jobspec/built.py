"""What a jobspec may say and this release does not do yet."""

from xce.jobspec.document import Spec
from xce.model.relation import LaunchType


def find_unbuilt(spec: Spec) -> tuple[str, str]:
    """Return what a jobspec says that is not built yet, and where; two empty texts: nothing."""
    is_mixed = len({role.launch for role in spec.roles}) > 1
    for number, role in enumerate(spec.roles):
        kind, key = role.launch, spec.role_place(number).key
        if not spec.runs_by_roles and is_mixed and kind is not LaunchType.SCRIPT:
            return f"launch type {kind.value} beside another one of the same command", key
    return "", ""
