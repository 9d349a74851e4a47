"""Command lines of scenarios, read by the very code of the commands."""

import re
import shlex
from typing import Any, Final

from xce.cli.lsf import bkill, brequeue, bresume, bstop, bsub, btop
from xce.cli.lsf.bkill import build_action
from xce.cli.lsf.control import build_selection
from xce.cli.lsf.options import Options, Parsed, UsageError, parse_options
from xce.cli.lsf.signals import parse_signal
from xce.cli.lsf.submission import build_submission, merge_options
from xce.cli.lsf.values import BadValueError
from xce.model.command import (
    Command,
    KillJobs,
    MoveJobs,
    RequeueJobs,
    ResumeJobs,
    Selection,
    SignalJobs,
    StopJobs,
)
from xce.model.ids import SECOND_US, JobId, Micros
from xce.resreq.array import parse_job_ref
from xce.resreq.errors import JobRefError
from xce.sim.scenario_run import WordsError

_SURROUNDINGS: Final = {
    "cwd": "/",
    "from_host": "sim",
    "home": "/",
    "umask": 0o022,
    "env": [],
}
"""What a real ``bsub`` takes from where it runs: the same everywhere in a scenario."""
_MEANINGLESS: Final = {
    "-K": "nobody waits in a scenario",
    "-is": "a scenario has no files",
    "-env": "jobs of a scenario have no environment",
}
_NAMED: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]*)((?:\[.*\])?)")
_MOVES: Final = ("btop", "bbot")
_TABLES: Final[dict[str, Options]] = {
    "bkill": bkill.OPTIONS,
    "bstop": bstop.OPTIONS,
    "bresume": bresume.OPTIONS,
    "brequeue": brequeue.OPTIONS,
    "btop": btop.OPTIONS,
    "bbot": btop.OPTIONS,
}


class CommandWords:
    """Reads command lines as the commands do."""

    def submission(
        self, line: str, *, now_us: Micros, unit: str
    ) -> tuple[dict[str, object], list[str]]:
        """Return the body of a submit request, and the queues to try in order.

        Raises:
            WordsError: ``bsub`` would refuse the line.
        """
        try:
            parsed = parse_options(_split(line), bsub.OPTIONS, until_word=True)
            _refuse(parsed)
            options = merge_options(parsed, Parsed({}, []))
            body = build_submission(options, {}, lambda: unit, now_s=now_us / SECOND_US)
        except (UsageError, BadValueError) as error:
            raise WordsError(str(error)) from error
        command = " ".join(parsed.rest).strip() or "run"
        return {**body, **_SURROUNDINGS, "command": command}, parsed.value("-q").split()

    def command(self, line: str, *, user: str, is_admin: bool, ids: dict[str, JobId]) -> Command:
        """Return what another command than ``bsub`` asks for.

        Raises:
            WordsError: The command would refuse the line.
        """
        name = line.split(None, 1)[0]
        try:
            parsed = parse_options(_split(line), _TABLES[name], until_word=False)
            _refuse(parsed)
            parsed.rest = [_numbered(word, ids) for word in parsed.rest]
            position = _take_position(parsed) if name in _MOVES else 1
            parsed.given.setdefault("-u", [user])
            selection = _selection(build_selection(parsed))
            if name == "bkill":
                return _kill(parsed, selection, user, is_admin=is_admin)
        except (UsageError, BadValueError) as error:
            raise WordsError(str(error)) from error
        except JobRefError as error:
            raise WordsError(error.message) from error
        if name == "bstop":
            return StopJobs(user, is_admin, selection)
        if name == "bresume":
            return ResumeJobs(user, is_admin, selection)
        if name == "brequeue":
            states = brequeue.chosen_states(parsed)
            return RequeueJobs(user, is_admin, selection, states, parsed.has("-H"))
        return MoveJobs(user, is_admin, selection, name == "btop", position)


def _kill(
    parsed: Parsed, selection: Selection, user: str, *, is_admin: bool
) -> KillJobs | SignalJobs | StopJobs | ResumeJobs:
    """Return what ``bkill`` asks for: some signals are job control."""
    action, _ = build_action(parsed.value("-s"), force=parsed.has("-r"))
    match action["action"]:
        case "kill":
            return KillJobs(user, is_admin, selection, bool(action.get("force")))
        case "stop":
            return StopJobs(user, is_admin, selection)
        case "resume":
            return ResumeJobs(user, is_admin, selection)
        case _:
            return SignalJobs(user, is_admin, selection, parse_signal(parsed.value("-s")))


def _take_position(parsed: Parsed) -> int:
    """Take the position out of the words of ``btop`` and ``bbot``."""
    if not parsed.rest:
        raise WordsError("Job ID must be specified")
    text = parsed.rest.pop() if len(parsed.rest) > 1 else "1"
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) <= 10**9):
        raise WordsError(f"{text}: Illegal position: expected a whole number from 1")
    return int(text)


def _split(line: str) -> list[str]:
    """Return the words behind the command's name, as a shell gives them."""
    try:
        return shlex.split(line)[1:]
    except ValueError as error:
        raise WordsError(f"{line!r}: {error}") from error


def _refuse(parsed: Parsed) -> None:
    """Refuse what means nothing in a scenario."""
    for option, why in _MEANINGLESS.items():
        if parsed.has(option):
            raise WordsError(f"{option}: {why}; leave it out")
    for option in ("-h", "-help", "-V", "--wait-daemon", "-l"):
        if parsed.has(option):
            raise WordsError(f"{option} does not stand in a scenario")


def _numbered(word: str, ids: dict[str, JobId]) -> str:
    """Return a scenario's name of a job as its number; other words as they are."""
    match = _NAMED.fullmatch(word)
    if match is None:
        return word
    if match[1] not in ids:
        raise WordsError(f"{match[1]}: no job of this name was submitted before")
    return f"{ids[match[1]]}{match[2]}"


def _selection(document: dict[str, Any]) -> Selection:
    """Return what the command would send, as the controller takes it."""
    if "jobs" in document:
        return Selection(jobs=tuple(parse_job_ref(text) for text in document["jobs"]))
    user = document.pop("user")
    return Selection(user="" if user == "all" else user, **document)
