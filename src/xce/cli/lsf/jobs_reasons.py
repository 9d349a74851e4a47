"""``bjobs -psum``: the reasons of pending jobs, counted."""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Row = dict[str, Any]

_HOSTS = (" host", " hosts")


class Summary:
    """How many jobs pend for each reason.

    Attributes:
        jobs: All that pend; each element of an array is one.
        of_jobs: By reason that is about the job itself: how many jobs have it.
        of_hosts: By reason that is about hosts: how often a host is kept from a job by it.
    """

    __slots__ = ("jobs", "of_hosts", "of_jobs")

    def __init__(self) -> None:
        self.jobs = 0
        self.of_jobs: dict[str, int] = {}
        self.of_hosts: dict[str, int] = {}

    def add(self, rows: Iterable[Row]) -> None:
        """Count rows; those of jobs that do not pend mean nothing."""
        for row in rows:
            if row["stat"] not in {"PEND", "PSUSP"}:
                continue
            count = row.get("count", 1)
            self.jobs += count
            reason = row.get("reason")
            for line in reason["lsf"] if reason else ():
                text, colon, tail = line.rpartition(": ")
                number = tail.removesuffix("s").removesuffix(" host")
                if colon and tail.endswith(_HOSTS) and number.isdecimal():
                    self.of_hosts[text] = self.of_hosts.get(text, 0) + count * int(number)
                else:
                    self.of_jobs[line] = self.of_jobs.get(line, 0) + count


def render_summary(summary: Summary, cluster: str, now_s: float) -> list[str]:
    """Return the lines of a summary; the most frequent reasons come first."""
    jobs = "1 pending job" if summary.jobs == 1 else f"{summary.jobs} pending jobs"
    lines = [
        f"Pending reason summary: published {time.ctime(now_s)}",
        f"Summarizing {jobs} in cluster ({cluster}):",
    ]
    lines += _counted(summary.of_jobs, "job")
    if summary.of_hosts:
        lines += ["Individual host based reasons:", *_counted(summary.of_hosts, "occurrence")]
    return lines


def _counted(counts: dict[str, int], unit: str) -> list[str]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [f" {text}:  {count} {unit}{'' if count == 1 else 's'}" for text, count in ordered]
