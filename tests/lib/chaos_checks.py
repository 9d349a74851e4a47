"""What must be true after a chaos run: nothing acknowledged is lost, and nothing runs twice."""

import collections
from pathlib import Path
from typing import NamedTuple

from chaos_load import Sent, load_ledger
from live import Live, Row

HOST_LOST = ("TERM_HOST_LOST", "TERM_HOST_RESTARTED")
STATUS_LOST = "TERM_STATUS_LOST"


class Verdict(NamedTuple):
    """What the books say."""

    jobs: int
    elements: int
    requeued: int
    host_lost: int
    lost: tuple[str, ...]
    doubled: tuple[str, ...]
    wrong: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        """Whether every promise was kept."""
        return not (self.lost or self.doubled or self.wrong)


def judge(live: Live, ledger: Path, marks: Path, *, loses_hosts: bool) -> Verdict:
    """Compare the ledger of the load with what the cluster says and with what jobs wrote.

    Args:
        live: The cluster, in which all has ended.
        ledger: Of the load program.
        marks: Where jobs wrote what they did.
        loses_hosts: Whether hosts were given up in the run.
    """
    kept = load_ledger(ledger)
    rows = live.rows(("user", "all"), ("finished", "1"))
    ends: dict[tuple[int, int], Row] = {}
    doubled: list[str] = []
    names: dict[str, set[int]] = {}
    for row in rows:
        names.setdefault(row["name"].split("[")[0], set()).add(row["jobid"])
        for number in range(row.get("count", 1)):
            key = (row["jobid"], row["index"] + number * row.get("step", 1))
            if key in ends:
                doubled.append(f"{key} is listed twice")
            ends[key] = row
    doubled += [f"{name} is there as jobs {ids}" for name, ids in names.items() if len(ids) > 1]
    wrong = [f"job {name} was never sent" for name in names.keys() - kept.sent]
    wrong += [f"job {name} was refused, and is there" for name in names.keys() & kept.refused]
    lost: list[str] = []
    counts: collections.Counter[str] = collections.Counter()
    for job, one in kept.acknowledged.items():
        for index in one.indices:
            found = ends.get((job, index))
            if found is None or found["stat"] not in ("DONE", "EXIT"):
                lost.append(f"{job}[{index}] of {one.name}: {found}")
                continue
            counts["elements"] += 1
            counts["requeued"] += found["attempt"] > 1
            counts["host_lost"] += found["cause"] in HOST_LOST
            file = marks / f"{job}.{index}"
            lines = file.read_text().splitlines() if file.exists() else []
            tale = f"{job}[{index}] {one}: {found['stat']} {found['cause']} {lines}"
            if not _ran_once(lines, one, loses_hosts=loses_hosts):
                doubled.append(tale)
            elif not _ended_well(found, lines, one, loses_hosts=loses_hosts):
                wrong.append(tale)
    return Verdict(
        len(kept.acknowledged), counts["elements"], counts["requeued"], counts["host_lost"],
        tuple(lost), tuple(doubled), tuple(wrong),
    )  # fmt: skip


def _ran_once(lines: list[str], one: Sent, *, loses_hosts: bool) -> bool:
    """Whether attempts ran one after another, each once, and more than one only where allowed."""
    attempts = [int(line.split()[1]) for line in lines]
    if len(lines) != len(set(lines)) or attempts != sorted(attempts):
        return False
    if any(line.startswith("e") and f"b{line[1:]}" not in lines for line in lines):
        return False
    return len(set(attempts)) <= 1 or (loses_hosts and one.rerunnable)


def _ended_well(row: Row, lines: list[str], one: Sent, *, loses_hosts: bool) -> bool:
    """Whether what the cluster says of an element is what it did."""
    if row["cause"] in HOST_LOST:
        return loses_hosts and not one.rerunnable
    if row["cause"]:
        # Nobody killed it, and no job shell was killed, so each has left its status.
        return False
    wanted = ("EXIT" if one.code else "DONE", one.code)
    return (row["stat"], row["exit_code"] or 0) == wanted and f"e {row['attempt']}" in lines
