"""Checkpoints of jobs, as REST takes and tells them."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from xce.apiserver.problems import refused
from xce.model.checkpoint import METHOD, METHOD_FORM, Checkpoints
from xce.model.config import ClusterConfig
from xce.model.ids import SECOND_US
from xce.model.refusal import RefusalCode

PERIOD_S_MIN: Final = 5
"""Between two checkpoints of a job; 0 stands for none."""
PERIOD_S_MAX: Final = 366 * 86_400
Period = Annotated[float, Meta(ge=0, le=PERIOD_S_MAX)]


class CheckpointsBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a submission says of them."""

    directory: Annotated[str, Meta(pattern=r"\A/[^\x00]{0,4000}\Z")]
    """From the root; each job has a directory of its own in it."""
    method: Annotated[str, Meta(pattern=METHOD_FORM)] = METHOD
    """The programs are ``echkpnt.METHOD`` and ``erestart.METHOD``."""
    period_s: Period = 0
    """So often one is written; 0: only when somebody asks."""
    first_s: Period = 0
    """So long after the start the first is; 0: as the others. Only with ``period_s``."""


class CheckpointsRow(msgspec.Struct, frozen=True, gc=False):
    """What is told of them."""

    directory: str
    method: str
    period_s: float
    first_s: float


def read_checkpoints(
    body: CheckpointsBody | None, config: ClusterConfig, *, is_interactive: bool
) -> Checkpoints | None:
    """Return where and when checkpoints of a job are written; None: it writes none.

    Raises:
        ProblemError: It cannot write any.
    """
    if body is None:
        return None
    if not config.checkpoint_programs:
        raise refused(
            RefusalCode.BAD_REQUEST,
            "no checkpoint_programs are named in xce.yaml, so that nothing can write checkpoints: "
            "leave out -k",
        )
    _check_period(body.period_s)
    _check_period(body.first_s)
    if body.first_s and not body.period_s:
        raise refused(
            RefusalCode.BAD_REQUEST,
            "first_s is when the first checkpoint of a period is written: say period_s, too",
            lsf="Bad checkpoint period",
        )
    if is_interactive:
        raise refused(RefusalCode.BAD_REQUEST, "interactive jobs write no checkpoints")
    return Checkpoints(
        body.directory, body.method, round(body.period_s * SECOND_US),
        round(body.first_s * SECOND_US),
    )  # fmt: skip


def _check_period(period_s: float) -> None:
    if 0 < period_s < PERIOD_S_MIN:
        raise refused(
            RefusalCode.BAD_REQUEST,
            f"checkpoints are at least {PERIOD_S_MIN} s apart",
            lsf="Bad checkpoint period",
        )


def render_checkpoints(body: CheckpointsBody) -> str:
    """Return what is wanted, in a line."""
    words = [body.directory, f"method={body.method}"]
    words += [f"period_s={body.period_s:g}"] * bool(body.period_s)
    words += [f"first_s={body.first_s:g}"] * bool(body.first_s)
    return " ".join(words)


def change_period(found: Checkpoints | None, period_s: float) -> Checkpoints:
    """Return a job's checkpoints with another period.

    Raises:
        ProblemError: It is too short, or the job writes none.
    """
    _check_period(period_s)
    if found is None:
        raise refused(
            RefusalCode.BAD_REQUEST, "the job was submitted without -k",
            lsf="Job is not checkpointable",
        )  # fmt: skip
    return replace(found, period_us=round(period_s * SECOND_US))


def checkpoints_row(found: Checkpoints | None) -> CheckpointsRow | None:
    """Return what is told of a job's checkpoints; None: it writes none."""
    if found is None:
        return None
    return CheckpointsRow(
        found.directory, found.method, found.period_us / SECOND_US, found.first_us / SECOND_US
    )
