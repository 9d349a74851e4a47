"""Why jobs pend: the levels of ``bjobs -p0`` to ``-p3``, and the sums of ``-psum``.

LSF tells hosts that could run a job, were what is in use free, from those that could not:
candidates and non-candidates. Level 2 shows the reasons of the former, level 3 those of both.
"""

from __future__ import annotations

import time

from xce.cli.lsf.rows import is_pending, reason_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Row = dict[str, Any]

_KINDS = ("Candidate", "Non-candidate")


def apply_level(rows: Iterable[Row], level: int, hosts: int, *, names: bool = False) -> None:
    """Let rows have the reasons of a level: 1 is the first alone, 2 and 3 as above.

    Args:
        rows: Rows with their ``reason``; others stay as they are.
        level: 0 to 3.
        hosts: How many hosts the cluster has.
        names: Whether hosts are named, and not counted.
    """
    for row in rows if level or names else ():
        reason = row.get("reason")
        if not reason or not is_pending(row):
            continue
        lines = _named_lines(row) if names else reason_lines(row)
        if not level:
            row["reason"] = {**reason, "lsf": lines}
            continue
        if level == 1:
            row["reason"] = {**reason, "lsf": lines[:1]}
        elif reason["hosts"] or reason["parts"]:
            main = [line for line in reason_lines(row) if not _of_hosts(line)[1]]
            _sort_by_kind(row, main, level, hosts, names=names)


def has_candidates(row: Row) -> bool:
    """Return whether there are hosts that could run the job, were what is in use free."""
    reason = row.get("reason") or {"hosts": (), "parts": ()}
    return any(one["candidate"] for one in (*reason["hosts"], *reason["parts"]))


def _named_lines(row: Row) -> list[str]:
    """Return the texts of a reason with the names of hosts where they are known."""
    reason = row["reason"]
    found: dict[str, dict[str, None]] = {}
    unknown = set()
    for one in (*reason["hosts"], *reason["parts"]):
        found.setdefault(one["lsf"], {}).update(dict.fromkeys(one.get("names") or ()))
        unknown.update([] if one.get("names") else [one["lsf"]])
    lines = []
    for line in reason_lines(row):
        text, count = _of_hosts(line)
        is_named = count and found.get(text) and text not in unknown
        lines.append(f"{text}: {', '.join(found[text])}" if is_named else line)
    return lines


def _sort_by_kind(
    row: Row, main: list[str], level: int, hosts: int, *, names: bool = False
) -> None:
    """Give a row its reasons by kind of host; ``main`` are those that are about no hosts."""
    reason = row["reason"]
    block = [f" {line};" for line in main]
    shown = list(main)
    by_role: dict[str, list[Row]] = {}
    for one in (*reason["hosts"], *reason["parts"]):
        by_role.setdefault(one["role"], []).append(one)
    for role, every in by_role.items():
        for place, kind in enumerate(_KINDS[: level - 1]):
            counts: dict[str, int] = {}
            named: dict[str, list[str]] = {}
            for one in every:
                if one["candidate"] is not bool(place):
                    counts[one["lsf"]] = counts.get(one["lsf"], 0) + one["hosts"]
                    named.setdefault(one["lsf"], []).extend((names and one.get("names")) or ())
            lines = [
                f"{text}: {', '.join(named[text]) or _plural(count, 'host')}"
                for text, count in _ordered(counts)
            ]
            about = f" of {role}" if role else ""
            size = f"{sum(counts.values())} of {_plural(hosts, 'host')}"
            block += [""] if len(block) > len(main) else []
            block.append(f" {kind} host pending reasons{about} ({size}){':' if lines else '.'}")
            block += [f"   {line};" for line in lines]
            shown += lines
    row["reason"] = {**reason, "lsf": shown or reason["lsf"]}
    row["reason_block"] = block


def _of_hosts(line: str) -> tuple[str, int]:
    """Return the text and the number of a line such as ``text: 3 hosts``; 0: it is about none."""
    text, colon, tail = line.rpartition(": ")
    number, blank, unit = tail.partition(" ")
    if colon and blank and unit in {"host", "hosts"} and number.isdecimal():
        return text, int(number)
    return line, 0


def _plural(count: int, unit: str) -> str:
    return f"{count} {unit}{'' if count == 1 else 's'}"


def _ordered(counts: dict[str, int]) -> list[tuple[str, int]]:
    """Return texts and their numbers, the greatest first."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


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
            if not is_pending(row):
                continue
            count = row.get("count", 1)
            self.jobs += count
            reason = row.get("reason")
            for line in reason["lsf"] if reason else ():
                words, hosts = _of_hosts(line)
                if hosts:
                    self.of_hosts[words] = self.of_hosts.get(words, 0) + count * hosts
                else:
                    self.of_jobs[line] = self.of_jobs.get(line, 0) + count


def render_summary(summary: Summary, cluster: str, now_s: float) -> list[str]:
    """Return the lines of a summary; the most frequent reasons come first."""
    jobs = _plural(summary.jobs, "pending job")
    lines = [
        f"Pending reason summary: published {time.ctime(now_s)}",
        f"Summarizing {jobs} in cluster ({cluster}):",
    ]
    lines += _counted(summary.of_jobs, "job")
    if summary.of_hosts:
        lines += ["Individual host based reasons:", *_counted(summary.of_hosts, "occurrence")]
    return lines


def _counted(counts: dict[str, int], unit: str) -> list[str]:
    return [f" {text}:  {_plural(count, unit)}" for text, count in _ordered(counts)]
