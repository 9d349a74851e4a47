"""``kill``, ``stop``, ``resume``, ``requeue``."""

import argparse
from collections.abc import Iterator
from typing import Any, Final

from xce.cli.xcecli.listing import job_ref
from xce.cli.xcecli.render import render_json
from xce.cli.xcecli.session import OK, BadUsageError, Session, code_of

_DONE = {
    "killed": "is being ended",
    "stopped": "is being stopped",
    "resumed": "is being resumed",
    "requeued": "is being requeued",
}
_STATES: Final = {
    "pend": ("PEND",),
    "run": ("RUN",),
    "susp": ("USUSP", "SSUSP"),
    "done": ("DONE",),
    "exit": ("EXIT",),
}


def run_action(session: Session, options: argparse.Namespace) -> int:
    """Do to the jobs what the subcommand's name says."""
    body = {"action": options.name, "select": _selection(options)}
    if getattr(options, "force", False):
        body["force"] = True
    if options.name == "requeue":
        body |= {"states": _states(options.state), "hold": options.hold}
    # What is shown as JSON is shown as it came: there each job has a line.
    answer = session.api.call("POST", "/jobs/actions", (), body, in_runs=not options.json)
    if options.json:
        session.say(render_json(answer["results"]))
    codes = [
        _tell(session, one, quiet=options.json)
        for item in answer["results"]
        for one in each_of(item)
    ]
    return next((code for code in codes if code != OK), OK)


def _states(text: str) -> list[str]:
    """Return the states that a list of words means."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    unknown = [word for word in words if word not in _STATES]
    if unknown or not words:
        what = repr(unknown[0]) if unknown else "nothing"
        raise BadUsageError(f"--state: {what} is no state; there are: {', '.join(_STATES)}")
    return [state for word in words for state in _STATES[word]]


def _selection(options: argparse.Namespace) -> dict[str, Any]:
    filters = {
        name: value
        for name in ("user", "queue", "name")
        if (value := getattr(options, "pattern" if name == "name" else name)) is not None
    }
    if options.ids:
        if options.all or filters:
            raise BadUsageError("ids stand alone, without --all, -u, -q and --name")
        return {"jobs": [job_ref(item) for item in options.ids]}
    if not options.all:
        raise BadUsageError("name jobs, or say --all")
    return {"all": True, **filters}


def each_of(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a result for each job of a run."""
    if "count" not in item:
        yield item
        return
    for job in range(item["jobid"], item["jobid"] + item["count"]):
        yield {"job": str(job), "jobid": job, "text": item["text"]}


def _tell(session: Session, item: dict[str, Any], *, quiet: bool) -> int:
    error = item.get("error")
    if error is not None:
        session.tell(f"xcecli: {error['text']}")
        return code_of(error["code"])
    if not quiet:
        session.say(f"Job {item['job']} {_DONE.get(item['text'], item['text'])}.")
    return OK
