"""``bqueues``: list queues."""

from __future__ import annotations

from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.jobs_fields import limit_text
from xce.cli.lsf.options import FLAG, Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    Queue = dict[str, Any]

USAGE = """\
Usage: bqueues [options] [queue_name ...]
  -w              nothing cut, more columns
  -l              long
"""
OPTIONS = Options(
    {"-w": FLAG, "-l": FLAG},
    {
        **dict.fromkeys(("-m", "-u", "-r", "-alloc", "-noheader"), ""),
        **dict.fromkeys(("-o", "-json"), "use 'xcecli queues -o json'"),
    },
    bundled=True,
)
_HEADER = "QUEUE_NAME      PRIO STATUS          MAX JL/U JL/P JL/H NJOBS  PEND   RUN  SUSP"
_SEPARATOR = "-" * 78
_THRESHOLDS = (
    "SCHEDULING PARAMETERS\n"
    "           r15s   r1m  r15m   ut      pg    io   ls    it    tmp    swp    mem\n"
    " loadSched   -     -     -     -       -     -    -     -     -      -      -  \n"
    " loadStop    -     -     -     -       -     -    -     -     -      -      -  \n"
)


def _status(queue: Queue) -> str:
    """Return ``Open:Active`` and the like."""
    opened = "Open" if queue["open"] else "Closed"
    if not queue["active"]:
        return f"{opened}:Inact"
    return f"{opened}:{'Active' if queue.get('window_open', True) else 'Inact_Win'}"


def _most(queue: Queue) -> str:
    return str(queue["max"]) if queue.get("max") else "-"


def render_queues(queues: list[Queue], *, wide: bool) -> list[str]:
    """Return the table."""
    lines = [_HEADER + ("   RSV PJOBS\n" if wide else "\n")]
    for queue in queues:
        name = queue["name"] if wide else queue["name"][:15]
        line = (
            f"{name:<15} {queue['priority']:>3}  {_status(queue):<14} {_most(queue):>4} {'-':>4} "
            f"{'-':>4} {'-':>4} {queue['njobs']:>5} {queue['pend']:>5} {queue['run']:>5} "
            f"{queue['susp']:>5}"
        )
        lines.append(f"{line} {queue['rsv']:>5} {'-':>5}\n" if wide else f"{line}\n")
    return lines


def render_queue(queue: Queue) -> list[str]:
    """Return the long form of one queue."""
    default = "  This is the default queue.\n" if queue.get("default") else ""
    values = (
        f"{queue['priority']:>3}    0  {_status(queue):<14} {_most(queue):>4} {'-':>4} {'-':>4} "
        f"{'-':>4} {queue['njobs']:>5} {queue['pend']:>5} {queue['run']:>5} {queue['ssusp']:>5} "
        f"{queue['ususp']:>5} {queue['rsv']:>4} {'-':>5}\n"
    )
    lines = [
        "\n",
        f"QUEUE: {queue['name']}\n",
        f"  -- {queue.get('description') or 'No description provided.'}\n",
        default,
        "\n",
        "PARAMETERS/STATISTICS\n",
        "PRIO NICE STATUS          MAX JL/U JL/P JL/H NJOBS  PEND   RUN SSUSP USUSP  RSV PJOBS\n",
        values,
        "\n",
    ]
    if queue.get("default_run_limit_s"):
        lines += ["DEFAULT LIMITS:\n", *_run_limit(queue["default_run_limit_s"]), "\n"]
    most = _maxima(queue)
    if most:
        lines += ["MAXIMUM LIMITS:\n", *most, "\n"]
    lines += [_THRESHOLDS, "\n"]
    policies = queue.get("policies") or (["EXCLUSIVE"] if queue.get("exclusive") else [])
    if policies:
        lines += [f"SCHEDULING POLICIES:  {' '.join(policies)}\n", "\n"]
    shares = queue.get("user_shares")
    if shares:
        lines.append(f"USER_SHARES:  {' '.join(f'[{name}, {size}]' for name, size in shares)}\n")
    if queue.get("run_windows"):
        lines.append(f"RUN_WINDOWS:  {' '.join(queue['run_windows'])}\n")
    lines.append(f"USERS: {' '.join(queue.get('users') or ()) or 'all'}\n")
    lines.append(f"HOSTS:  {' '.join(queue.get('hosts') or ()) or 'all'}\n")
    return [line for line in lines if line]


def _run_limit(seconds: float) -> list[str]:
    return [" RUNLIMIT                \n", f" {seconds / 60:.1f} min\n"]


def _maxima(queue: Queue) -> list[str]:
    """Return the ceilings, each as a heading with its value below."""
    lines: list[str] = []
    if queue.get("run_limit_s"):
        lines += _run_limit(queue["run_limit_s"])
    least, most = queue.get("tasks_min") or 1, queue.get("tasks_max")
    if most or least > 1:
        shown = f"{least} {most}" if least > 1 and most else str(most or least)
        heading = " TASKLIMIT" if most else " TASKLIMIT (minimum)"
        lines += [f"{heading}\n", f" {shown}\n"]
    if queue.get("mem_limit_mib"):
        lines += [" MEMLIMIT\n", f"{limit_text(queue['mem_limit_mib'] * 1024):>9} \n"]
    return lines


def execute(context: Context) -> int:
    """List the queues."""
    parsed = context.parsed
    known: list[Queue] = context.api.call("GET", "/queues")["queues"]
    by_name = {queue["name"]: queue for queue in known}
    missing = [name for name in parsed.rest if name not in by_name]
    if parsed.rest:
        known = [by_name[name] for name in dict.fromkeys(parsed.rest) if name in by_name]
    known.sort(key=lambda queue: -queue["priority"])
    if parsed.has("-l"):
        for place, queue in enumerate(known):
            context.out_block([f"{_SEPARATOR}\n" if place else "", *render_queue(queue)])
    elif known:
        context.out_block(render_queues(known, wide=parsed.has("-w")))
    for name in missing:
        context.err(f"{name}: No such queue")
    return FAILED if missing else 0


def main() -> NoReturn:
    """Run ``bqueues``."""
    run_main(OPTIONS, USAGE, execute)
