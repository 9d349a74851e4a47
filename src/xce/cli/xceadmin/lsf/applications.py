"""``lsb.applications``: one application profile of LSF as one of ``applications.yaml``."""

from typing import Any

from xce.cli.xceadmin.lsf.files import Section
from xce.cli.xceadmin.lsf.limits import (
    PROCESS_LIMITS,
    minutes_of,
    size_of,
    take_process_limit,
)
from xce.cli.xceadmin.lsf.queues import (
    take_exit_values,
    take_hook,
    take_max_requeues,
    take_tasks,
)
from xce.cli.xceadmin.lsf.report import Findings, Verdict
from xce.cli.xceadmin.lsf.verdicts import APPLICATION, find_reason
from xce.config.names import QUEUE_NAME

App = dict[str, Any]
Taken = tuple[Verdict, str]


class ApplicationImport:
    """Makes application profiles.

    Args:
        findings: The report.
        unit: The unit of sizes without one: ``K``, ``M``, ``G`` or ``T``.
    """

    def __init__(self, findings: Findings, unit: str) -> None:
        self.apps: list[App] = []
        self._findings = findings
        self._unit = unit

    def add(self, section: Section) -> None:
        """Take a profile."""
        name = section.text("NAME")
        is_taken = QUEUE_NAME.fullmatch(name) is not None
        app: App = {"name": name}
        if is_taken:
            self.apps.append(app)
        for key in section.cells:
            text = section.text(key)
            if not is_taken:
                verdict, said = Verdict.NONE, "its profile cannot be called so: name it differently"
            elif key == "NAME" or not text:
                verdict, said = Verdict.TAKEN, "name" if key == "NAME" else "the default"
            elif key in PROCESS_LIMITS:
                verdict, said = take_process_limit(app, key, text, self._unit, has_default=False)
            else:
                verdict, said = self._take(key, app, text)
            self._findings.add(section, key, verdict, said, of=name)

    def _take(self, key: str, app: App, text: str) -> Taken:
        match key:
            case "DESCRIPTION" | "RES_REQ":
                member = {"DESCRIPTION": "description", "RES_REQ": "resreq"}[key]
                app[member] = " ".join(text.split())[:512]
                return Verdict.TAKEN, member
            case "RUNLIMIT":
                return _take_run_limit(app, text)
            case "RUNTIME":
                minutes = minutes_of(text.partition("/")[0])
                span = f"{minutes}m" if minutes is not None else None
                return _take_value(app, "estimate", span, "time of [hours:]minutes")
            case "MEMLIMIT":
                return _take_value(app, "mem_limit", size_of(text, self._unit), "amount of memory")
            case "TASKLIMIT" | "PROCLIMIT":
                return take_tasks(app, text)
            case "RERUNNABLE":
                app["rerunnable"] = text.lower() in ("y", "yes")
                return Verdict.TAKEN, f"rerunnable: {str(app['rerunnable']).lower()}"
            case "REQUEUE_EXIT_VALUES" | "SUCCESS_EXIT_VALUES":
                return take_exit_values(app, key.lower(), text)
            case "PRE_EXEC" | "POST_EXEC":
                return take_hook(app, key.lower(), text)
            case "MAX_JOB_REQUEUE":
                return take_max_requeues(app, text)
        return Verdict.NONE, find_reason(APPLICATION, key)


def _take_value(app: App, key: str, value: str | None, what: str) -> Taken:
    if value is None:
        return Verdict.NONE, f"it is no {what}"
    app[key] = value
    return Verdict.TAKEN, f"{key}: {value}"


def _take_run_limit(app: App, text: str) -> Taken:
    minutes = [minutes_of(word.partition("/")[0]) for word in text.split()]
    if not minutes or None in minutes or len(minutes) > 2:
        return Verdict.NONE, "it is no [default] maximum of [hours:]minutes"
    app["run_limit"] = f"{minutes[-1]}m"
    if len(minutes) == 2:
        return Verdict.PARTLY, f"run_limit: {minutes[-1]}m; without -W it is the maximum"
    return Verdict.TAKEN, f"run_limit: {minutes[-1]}m"
