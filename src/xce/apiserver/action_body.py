"""What ``POST /jobs/actions`` takes: which jobs, and what is done to them."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from xce.apiserver.listing import IDS_MAX
from xce.apiserver.modification import ChangeBody
from xce.apiserver.problems import refused
from xce.apiserver.submission_checks import SIGNAL_MAX
from xce.model.refusal import RefusalCode

POSITION_MAX: Final = 1_000_000_000
Text = Annotated[str, Meta(max_length=4096)]


class SelectBody(msgspec.Struct, forbid_unknown_fields=True):
    """Which jobs: named ones, or ``all`` or the ``newest`` of those that match the filters."""

    jobs: Annotated[list[Text], Meta(max_length=IDS_MAX)] = []
    user: Text | None = None
    """``all``: everybody's that the caller may touch; not given: the caller's own."""
    queue: Text = ""
    name: Text = ""
    host: Text = ""
    group: Text = ""
    """Only of this job group, not of those below it."""
    app: Text = ""
    state: Literal["", "pend", "run", "susp"] = ""
    """Only elements that pend, run or are suspended."""
    newest: bool = False
    all: bool = False


class ActionBody(msgspec.Struct, forbid_unknown_fields=True):
    """What to do to which jobs."""

    action: Literal[
        "kill", "stop", "resume", "signal", "requeue", "top", "bottom", "switch", "modify",
        "checkpoint",
    ]  # fmt: skip
    select: SelectBody
    force: bool = False
    """With ``kill``: at once, without a chance to clean up; with ``checkpoint``: its program is
    told so."""
    as_done: bool = False
    """With ``kill``: what has started counts as done when it is gone."""
    end: bool = False
    """With ``checkpoint``: the job ends when it is written."""
    states: list[Literal["RUN", "USUSP", "SSUSP", "DONE", "EXIT", "PEND"]] = []
    """With ``requeue``: only elements in these states; not given: those that run."""
    hold: bool = False
    """With ``requeue``: they are held then."""
    signal: Annotated[int, Meta(ge=0, le=SIGNAL_MAX)] = 0
    position: Annotated[int, Meta(ge=0, le=POSITION_MAX)] = 0
    """With ``top`` and ``bottom``: counted from there, from 1; not given: 1."""
    to_queue: Text = ""
    """With ``switch``: the queue."""
    change: ChangeBody | None = None
    """With ``modify``: what is changed of the jobs that are named."""


def check_members(body: ActionBody) -> None:
    """Check that what is said belongs to the action.

    Raises:
        ProblemError: It does not.
    """
    if body.force and body.action not in ("kill", "checkpoint"):
        raise refused(RefusalCode.BAD_REQUEST, "force belongs to kill and checkpoint")
    if body.as_done and (body.action != "kill" or body.force):
        raise refused(RefusalCode.BAD_REQUEST, "as_done belongs to kill without force")
    if body.end and body.action != "checkpoint":
        raise refused(RefusalCode.BAD_REQUEST, "end belongs to checkpoint")
    if (body.signal != 0) != (body.action == "signal"):
        raise refused(RefusalCode.BAD_REQUEST, "signal: a number from 1 belongs to that action")
    if body.position and body.action not in ("top", "bottom"):
        raise refused(RefusalCode.BAD_REQUEST, "position belongs to top and bottom")
    if (body.states or body.hold) and body.action != "requeue":
        raise refused(RefusalCode.BAD_REQUEST, "states and hold belong to requeue")
    if bool(body.to_queue) != (body.action == "switch"):
        raise refused(RefusalCode.BAD_REQUEST, "to_queue: a queue belongs to switch")
    if body.change is not None and body.action != "modify":
        raise refused(RefusalCode.BAD_REQUEST, "change belongs to modify")
