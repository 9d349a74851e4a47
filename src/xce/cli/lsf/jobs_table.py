"""The tables of ``bjobs``: plain, ``-w``, ``-W``, ``-A``. Offsets and widths are LSF's.

A hundred thousand rows must be printed in well under a second, so a line is one formatted text.
"""

from __future__ import annotations

from xce.cli.lsf.rows import (
    counted_hosts,
    expand,
    is_finished,
    job_name,
    one_line,
    pids_text,
    reason_block,
    repeated_hosts,
    short_hosts,
    slot_count,
    used,
)
from xce.cli.lsf.times import render_cpu_wide, render_minute, render_wide

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    Row = dict[str, Any]

MEMBERS = "stat,user,queue,from_host,hosts,name,submit_at"
WIDE_MEMBERS = f"{MEMBERS},project,cpu_s,pid,start_at,end_at,run_limit_s,estimate_s,usage"
_PENDING_HOST = "   -   "
"""What ``-w`` shows for no host, so that splitting at blanks keeps the columns."""


def jobid_width(environ: Mapping[str, str]) -> int:
    """Return the width of JOBID: 7, or up to 10 by ``LSB_JOBID_DISP_LENGTH``."""
    text = environ.get("LSB_JOBID_DISP_LENGTH", "")
    return min(max(int(text), 7), 10) if text.isascii() and text.isdigit() else 7


def short_header(width: int) -> str:
    """Return the header of the plain table."""
    return (
        f"{'JOBID':<{width}} USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   "
        "JOB_NAME   SUBMIT_TIME\n"
    )


def render_short(rows: Iterable[Row], width: int, *, with_reasons: bool = False) -> list[str]:
    """Return the lines of the plain table."""
    lines: list[str] = []
    for row in rows:
        hosts = counted_hosts(row) if row["hosts"] else ()
        head = (
            f"{row['jobid']:<{width}} {row['user'][:7]:<7} {row['stat']:<5} "
            f"{row['queue'][:10]:<10} {row['from_host'][:11]:<11} "
            f"{hosts[0][:11] if hosts else '':<11} "
        )
        tail = f" {render_minute(row['submit_at'])}\n"
        more = "".join([f"{'':{width + 38}}{host[:11]}\n" for host in hosts[1:]])
        if with_reasons:
            more += _reasons(row)
        if row.get("count", 1) == 1:
            name = job_name(row)
            if len(name) > 10:
                name = f"*{name[-9:]}"
            lines.append(f"{head}{name:<10}{tail}{more}")
            continue
        name = one_line(row["name"])
        step = row.get("step", 1)
        for index in range(row["index"], row["index"] + row["count"] * step, step):
            element = f"{name[-10:]}[{index}]" if len(name) > 10 else f"{name}[{index}]"
            if len(element) > 10:
                element = f"*{element[-9:]}"
            lines.append(f"{head}{element:<10}{tail}{more}")
    return lines


def _reasons(row: Row) -> str:
    """Return the reasons below a row, each on a line of its own."""
    return "".join([f"{line}\n" for line in reason_block(row)])


def wide_header(*, with_host: bool = True) -> str:
    """Return the header of ``-w``."""
    host = "EXEC_HOST   " if with_host else ""
    return f"JOBID   USER    STAT  QUEUE      FROM_HOST   {host}JOB_NAME   SUBMIT_TIME\n"


def _wide_host(row: Row, *, short: bool) -> str:
    if not row.get("hosts"):
        return _PENDING_HOST
    return short_hosts(row) if short else repeated_hosts(row)


def render_w(
    rows: Iterable[Row], *, short: bool, with_host: bool = True, with_reasons: bool = False
) -> list[str]:
    """Return the lines of ``-w``: nothing is cut, columns grow row by row."""
    lines = []
    for row in expand(rows):
        host = f"{_wide_host(row, short=short):<11} " if with_host else ""
        lines.append(
            f"{row['jobid']:<7} {row['user']:<7} {row['stat']:<5} {row['queue']:<10} "
            f"{row['from_host']:<11} {host}{job_name(row):<10} "
            f"{render_minute(row['submit_at'])}\n{_reasons(row) if with_reasons else ''}"
        )
    return lines


EXTRA_WIDE_HEADER = (
    "JOBID   USER    STAT  QUEUE      FROM_HOST   EXEC_HOST   JOB_NAME   SUBMIT_TIME    "
    "PROJ_NAME  CPU_USED     MEM    SWAP   PIDS   START_TIME     FINISH_TIME    SLOTS\n"
)


def render_extra_wide(rows: Iterable[Row], *, short: bool) -> list[str]:
    """Return the lines of ``-W``. No cell but the name holds blanks, none is empty."""
    lines = []
    for row in expand(rows):
        end = row.get("end_at") if is_finished(row) else None
        host = _wide_host(row, short=short).strip()
        use = row.get("usage") or {}
        memory, swap = (f"{use[name]:.0f}" if use else "-" for name in ("mem_mib", "swap_mib"))
        lines.append(
            f"{row['jobid']:<7} {row['user']:<7} {row['stat']:<5} {row['queue']:<10} "
            f"{row['from_host']:<11} {host:<11} {job_name(row):<10} "
            f"{render_wide(row['submit_at']):<14} {row.get('project') or '-':<10} "
            f"{render_cpu_wide(used(row, 'cpu_s')):<12} {memory:<6} {swap:<6} "
            f"{pids_text(row) or '-':<6} {render_wide(row.get('start_at')):<14} "
            f"{render_wide(end):<14} {slot_count(row) or '-'}\n"
        )
    return lines


_ENDINGS = {"-WF": "FINISH_TIME", "-WL": "TIME_LEFT", "-WP": "%COMPLETE"}
"""Option and the heading of its column."""


def ending_header(option: str) -> str:
    """Return the header of ``-WF``, ``-WL`` or ``-WP``."""
    return f"{wide_header()[:-1]:<80} {_ENDINGS[option]}\n"


def render_ending(rows: Iterable[Row], option: str, now_s: float, *, short: bool) -> list[str]:
    """Return the lines of ``-w`` with when each job ends behind."""
    from xce.cli.lsf.jobs_fields import FIELDS, View  # noqa: PLC0415 - one form's code only

    render = FIELDS[_ENDINGS[option].lower()].render
    assert render is not None
    view = View(now_s)
    lines = []
    for row in expand(rows):
        (line,) = render_w([row], short=short)
        lines.append(f"{line[:-1]:<80} {render(row, view) or '-'}\n")
    return lines


SUM_HEADER = "RUN          SSUSP        USUSP        UNKNOWN      PEND         FWD_PEND"
_SUM_OF = {"RUN": 0, "SSUSP": 1, "USUSP": 2, "PEND": 4, "PSUSP": 4}


def render_sums(rows: Iterable[Row]) -> str:
    """Return the line of ``-sum``: slots by state."""
    sums = [0] * 6
    for row in rows:
        place = _SUM_OF.get(row["stat"])
        if place is not None:
            slots = slot_count(row) or row.get("tasks_min") or 1
            sums[place] += slots * row.get("count", 1)
    return "".join([f"{size:<13}" for size in sums]).rstrip()


def render_short_pending(rows: Iterable[Row], width: int) -> list[str]:
    """Return the lines of ``-p``: no EXEC_HOST, the reasons below each row."""
    lines = []
    for row in expand(rows):
        name = job_name(row)
        if len(name) > 10:
            name = f"*{name[-9:]}"
        lines.append(
            f"{row['jobid']:<{width}} {row['user'][:7]:<7} {row['stat']:<5} "
            f"{row['queue'][:10]:<10} {row['from_host'][:11]:<11} {name:<10} "
            f"{render_minute(row['submit_at'])}\n{_reasons(row)}"
        )
    return lines


def pending_header(width: int) -> str:
    """Return the header of ``-p``."""
    return f"{'JOBID':<{width}} USER    STAT  QUEUE      FROM_HOST   JOB_NAME   SUBMIT_TIME\n"


ARRAY_HEADER = "JOBID      ARRAY_SPEC  OWNER   NJOBS PEND DONE  RUN EXIT SSUSP USUSP PSUSP\n"


def render_arrays(arrays: Iterable[Row], *, wide: bool) -> list[str]:
    """Return the lines of ``-A``: one for each array, with its elements counted by state."""
    lines = []
    for array in arrays:
        limit = f"%{array['array_limit']}" if array.get("array_limit") else ""
        spec = f"{one_line(array.get('name') or '')}[{array['array']}]{limit}"
        user = array["user"]
        if not wide:
            spec = spec if len(spec) <= 11 else f"{spec[:10]}*"
            user = user[:7]
        lines.append(
            f"{array['jobid']:<10} {spec:<11} {user:<7} {array['njobs']:>5} {array['pend']:>4} "
            f"{array['done']:>4} {array['run']:>4} {array['exit']:>4} {array['ssusp']:>5} "
            f"{array['ususp']:>5} {array['psusp']:>5}\n"
        )
    return lines
