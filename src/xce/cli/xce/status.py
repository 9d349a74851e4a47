"""`xce status`: which daemons run, which hosts have joined, how many jobs there are."""

import json
import os
import time
from pathlib import Path
from typing import Any

from xce.cli.xce.cluster import (
    ask_ready,
    load_daemons,
    load_places,
    open_api,
    render_mode,
    render_places,
    running_daemons,
)
from xce.client.rest import ProblemError, UnreachableError
from xce.daemon.paths import find_layout
from xce.daemon.processes import ProcessId
from xce.daemon.settings import Settings
from xce.model.units import render_span


def run_status(settings: Settings, *, as_json: bool) -> int:
    """Print how the cluster is; return 0 when it is ready, else 1."""
    status = load_status(settings)
    if as_json:
        print(json.dumps(status, indent=2))
    else:
        print(render_status(status))
    return 0 if status["ready"] and not status["trouble"] else 1


def load_status(settings: Settings) -> dict[str, Any]:
    """Return all that ``xce status`` shows."""
    layout = find_layout(settings.state_dir)
    running = running_daemons(layout)
    known = {daemon.name: daemon for daemon in load_daemons(layout)}
    face = ask_ready(layout) if running else None
    daemons = [
        _daemon_row(name, running.get(name), known[name]._asdict() if name in known else {})
        for name in [*sorted(set(running) - set(known)), *known]
    ]
    return {
        "ready": face is not None,
        "trouble": face.trouble if face else "",
        "state_dir": str(layout.root),
        **load_places(layout),
        "cluster": face.name if face else None,
        "mode": face.mode if face else None,
        "daemons": daemons,
        "hosts": face.hosts if face else [],
        "queues": _queues(settings) if face else [],
    }


def render_status(status: dict[str, Any]) -> str:
    """Return the table for people."""
    if not status["daemons"]:
        return f"no cluster runs here for {status['state_dir']}"
    head = f"cluster {status['cluster']}: ready" if status["ready"] else "cluster: not ready"
    lines = [
        f"{head}    ({status['state_dir']})",
        *render_places(status),
        *render_mode(status["mode"] or "production"),
    ]
    lines += [f"{status['trouble']}; nothing is accepted until it can"] if status["trouble"] else []
    lines.append("")
    rows: list[tuple[str, ...]] = [("DAEMON", "PID", "UP", "RESTARTS", "MEMORY", "")]
    rows += [_daemon_cells(row) for row in status["daemons"]]
    lines += _table(rows)
    if status["hosts"]:
        rows = [("HOST", "STATUS", "SLOTS", "USED", "ISOLATION")]
        rows += [
            (
                str(row["name"]),
                str(row.get("status")),
                str(row.get("slots_max")),
                str(row.get("njobs")),
                str(row.get("isolation") or ""),
            )
            for row in status["hosts"]
        ]
        lines += ["", *_table(rows)]
    if status["queues"]:
        pend = sum(int(row.get("pend") or 0) for row in status["queues"])
        run = sum(int(row.get("run") or 0) for row in status["queues"])
        susp = sum(int(row.get("susp") or 0) for row in status["queues"])
        lines += ["", f"tasks: {run} running, {pend} pending, {susp} suspended"]
    return "\n".join(lines)


def _queues(settings: Settings) -> list[dict[str, Any]]:
    api = open_api(find_layout(settings.state_dir))
    try:
        queues: list[dict[str, Any]] = api.call("GET", "/queues")["queues"]
        return queues
    except (UnreachableError, ProblemError):
        return []
    finally:
        api.close()


def _daemon_row(name: str, process: ProcessId | None, known: dict[str, Any]) -> dict[str, Any]:
    """Return one daemon as it is now; the process table is right where the file is not."""
    return {
        "name": name,
        "running": process is not None,
        "pid": process.pid if process else None,
        "up_s": _age_s(process) if process else None,
        "memory_mib": _memory_mib(process.pid) if process else None,
        "restarts": known.get("restarts", 0),
        "last_exit": known.get("last_exit", ""),
    }


def _daemon_cells(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["name"],
        str(row["pid"] or "-"),
        render_span(int(row["up_s"]) * 1_000_000) if row["running"] else "down",
        str(row["restarts"]),
        f"{row['memory_mib']} MiB" if row["memory_mib"] is not None else "-",
        f"last: {row['last_exit']}" if row["last_exit"] else "",
    )


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _age_s(process: ProcessId) -> float:
    """Return for how long a process runs, in seconds."""
    started_s = process.started_ticks / os.sysconf("SC_CLK_TCK")
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started_s)


def _memory_mib(pid: int) -> int | None:
    """Return the resident memory of a process."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE") // (1024 * 1024)
