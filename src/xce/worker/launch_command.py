"""What the job shell runs, by the launch type of the job's roles. Pure."""

import sys
from pathlib import Path
from typing import Final

from xce.model.job import JobSpec
from xce.model.relation import LaunchType
from xce.worker.script import EXEC

_ROOT: Final = Path(__file__).resolve().parents[1]
_PYTHON: Final = str(Path(sys.executable).resolve())
_START: Final = str(_ROOT / "cli" / "launch" / "start.py")
_STEP: Final = str(_ROOT / "client" / "step_main.py")
FILE_COPY: Final = (_PYTHON, "-I", "-S", str(_ROOT / "client" / "file_copy_main.py"))
"""Programs of ours that run in jobs; they are named and not imported."""


def launch_type_of(spec: JobSpec) -> LaunchType:
    """Return how the job's one command becomes its tasks."""
    types = {role.launch for role in spec.roles if not role.attach}
    return types.pop() if len(types) == 1 else LaunchType.SCRIPT


def command_of(spec: JobSpec, script: str, way: str) -> tuple[list[str], str]:
    """Return what the job shell runs, and how.

    Args:
        spec: The job.
        script: Path of its script on this host.
        way: How that runs.
    """
    if spec.runs_by_roles:
        return [_PYTHON, "-I", "-S", _STEP], EXEC  # its plan is in XCE_STEP_PLAN
    kind = launch_type_of(spec)
    if kind is LaunchType.SCRIPT:
        return [script, *spec.args], way
    return [_PYTHON, "-IS", _START, "job", kind.value, way, script, *spec.args], EXEC


def launch_programs() -> dict[str, str]:
    """Return the variables by which a job's launcher finds our programs on this host."""
    return {"XCE_LAUNCH_PYTHON": _PYTHON, "XCE_LAUNCH_START": _START}
