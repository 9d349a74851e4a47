"""What a simulation reports: waits, slowdown, utilisation, by queue and project; and its forms."""

import json
from typing import Any, Final

import yaml

SLOWDOWN_FLOOR_S: Final = 10
"""Shorter jobs count as so long, as the literature has it, lest they be all that matters."""
FORMATS: Final = ("json", "yaml", "table")


class Tally:
    """Sums over jobs that have run.

    Args:
        per_second: How many units of time a second has: 1, or 1,000,000.
    """

    def __init__(self, per_second: int = 1) -> None:
        self._unit = per_second
        self._floor = SLOWDOWN_FLOOR_S * per_second
        self.jobs = 0
        self.wait = 0
        self.wait_max = 0
        self.slowdown = 0.0
        self.used = 0
        """Processors times how long they were held."""

    def add(self, *, wait: int, run: int, slots: int) -> None:
        """Count a job."""
        self.jobs += 1
        self.wait += wait
        self.wait_max = max(self.wait_max, wait)
        self.slowdown += max(1.0, (wait + run) / max(run, self._floor))
        self.used += run * slots

    def means(self) -> dict[str, Any]:
        """Return what can be said without knowing the machine."""
        count = max(1, self.jobs)
        return {
            "jobs": self.jobs,
            "mean_wait": self.wait / count / self._unit,
            "max_wait": self.wait_max / self._unit,
            "mean_bounded_slowdown": self.slowdown / count,
        }


class Summary:
    """The summary of a run while jobs are added."""

    def __init__(self, per_second: int = 1) -> None:
        self._unit = per_second
        self.total = Tally(per_second)
        self.queues: dict[str, Tally] = {}
        self.projects: dict[str, Tally] = {}
        self._first_submit: int | None = None
        self._last_end = 0
        self._gpus_used = 0
        """In thousandths, times the time."""

    def note_submit(self, at: int) -> None:
        """Note that a job came, whether it ever runs or not."""
        if self._first_submit is None or at < self._first_submit:
            self._first_submit = at

    def add(
        self,
        *,
        submit: int,
        start: int,
        end: int,
        slots: int,
        queue: str,
        project: str,
        gpus_milli: int = 0,
    ) -> None:
        """Count a job that has run."""
        self._gpus_used += gpus_milli * (end - start)
        self._last_end = max(self._last_end, end)
        for tally in (
            self.total,
            self.queues.setdefault(queue, Tally(self._unit)),
            self.projects.setdefault(project, Tally(self._unit)),
        ):
            tally.add(wait=start - submit, run=end - start, slots=slots)

    def render(self, processors: int, gpus: int = 0) -> dict[str, Any]:
        """Return the summary of a machine with so many processors (slots) and GPUs."""
        span = self._last_end - (self._first_submit or 0) if self.total.jobs else 0
        offered = processors * span
        means = self.total.means()
        return {
            "utilisation": self.total.used / offered if offered else 0.0,
            "mean_wait": means["mean_wait"],
            "mean_bounded_slowdown": means["mean_bounded_slowdown"],
            "max_wait": means["max_wait"],
            "makespan": span / self._unit,
            "gpu_allocation": self._gpus_used / (1000 * gpus * span) if gpus and span else None,
            "processors": processors,
            "jobs": self.total.jobs,
            "by_queue": {name: self.queues[name].means() for name in sorted(self.queues)},
            "by_project": {name: self.projects[name].means() for name in sorted(self.projects)},
        }


def render_document(document: dict[str, Any], form: str) -> str:
    """Return a run's object as text in one of `FORMATS`."""
    if form == "json":
        return json.dumps(document, ensure_ascii=False)
    if form == "yaml":
        text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
        return f"---\n{text.rstrip()}"
    return _render_table(document)


def _render_table(document: dict[str, Any]) -> str:
    summary = document["summary"]
    used = f"utilisation {summary['utilisation']:.4f}, makespan {summary['makespan']:.0f} s"
    waits = f"wait mean {summary['mean_wait']:.2f} s, max {summary['max_wait']:.0f} s"
    lines = [
        f"{document['scenario']}: {document['events']} events, {document['sessions']} sessions",
        f"  jobs run {summary['jobs']}, {used}",
        f"  {waits}, bounded slowdown {summary['mean_bounded_slowdown']:.4f}",
    ]
    dropped = summary.get("dropped")
    if dropped:
        whys = ", ".join(f"{why} {count}" for why, count in sorted(dropped.items()))
        lines.append(f"  jobs left out {sum(dropped.values())}: {whys}")
    jobs = document.get("jobs", ())
    if jobs:
        rows = [("JOB", "STATE", "SUBMIT", "START", "END", "HOSTS OR REASON")]
        rows += [_row(job) for job in jobs]
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
            lines.append("  " + "  ".join([*cells, row[5]]).rstrip())
    for item in document["expect"]:
        if not item["ok"]:
            lines.append(f"  FAILED line {item['line']}: {item['text']}: {item['found']}")
    total = len(document["expect"])
    if total:
        good = sum(item["ok"] for item in document["expect"])
        lines.append(f"  {good} of {total} expectations hold")
    return "\n".join(lines)


def _row(job: dict[str, Any]) -> tuple[str, str, str, str, str, str]:
    name = f"{job['id']}[{job['index']}]" if job["index"] else str(job["id"])
    times = ["-" if job[key] is None else f"{job[key]:g}" for key in ("submit", "start", "end")]
    placed = " ".join(f"{item['host']}:{item['slots']}" for item in job["placement"])
    return (name, job["state"], times[0], times[1], times[2], placed or job["reason"] or "")
