"""``bqueues``: list queues."""

from __future__ import annotations

from xce.cli.lsf.columns import (
    OPTIONS as CUSTOM,
)
from xce.cli.lsf.columns import (
    USAGE as CUSTOM_USAGE,
)
from xce.cli.lsf.columns import (
    counted,
    fixed,
    is_custom,
    limited,
    nothing,
    render_custom,
)
from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.host_words import threshold_rows
from xce.cli.lsf.jobs_fields import limit_text
from xce.cli.lsf.options import FLAG, VALUE, Options
from xce.cli.lsf.process_limits import limit_blocks, shown_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from xce.cli.lsf.options import Parsed

    Queue = dict[str, Any]
    Share = dict[str, Any]

USAGE = f"""\
Usage: bqueues [options] [queue_name ...]
  -w              nothing cut, more columns
  -l              long
  -r              with the tree of shares
  -u user         only queues that take this user's jobs;  all: every queue
  -m host         only queues whose jobs may use this host
{CUSTOM_USAGE}\
  -alloc          counted in slots: so they always are
"""
OPTIONS = Options(
    {**dict.fromkeys(("-w", "-l", "-r", "-alloc"), FLAG), "-u": VALUE, "-m": VALUE, **CUSTOM},
    {},
    bundled=True,
)
_HEADER = "QUEUE_NAME      PRIO STATUS          MAX JL/U JL/P JL/H NJOBS  PEND   RUN  SUSP"
_SEPARATOR = "-" * 78
_EXITS = (
    ("PRE_EXEC", "pre_exec"),
    ("POST_EXEC", "post_exec"),
    ("REQUEUE_EXIT_VALUES", "requeue_exit_values"),
    ("SUCCESS_EXIT_VALUES", "success_exit_values"),
    ("MAX_JOB_REQUEUE", "max_requeues"),
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
    usual = _run_limit(queue["default_run_limit_s"]) if queue.get("default_run_limit_s") else []
    if queue.get("default_cpu_limit_s"):
        usual += _blocks({"cpu_limit_s": queue["default_cpu_limit_s"]})
    if usual:
        lines += ["DEFAULT LIMITS:\n", *usual, "\n"]
    most = _maxima(queue)
    if most:
        lines += ["MAXIMUM LIMITS:\n", *most, "\n"]
    lines += ["SCHEDULING PARAMETERS\n", *_thresholds(queue), "\n"]
    policies = queue.get("policies") or (["EXCLUSIVE"] if queue.get("exclusive") else [])
    if policies:
        lines += [f"SCHEDULING POLICIES:  {' '.join(policies)}\n", "\n"]
    shares = queue.get("user_shares")
    if shares:
        lines.append(f"USER_SHARES:  {' '.join(f'[{name}, {size}]' for name, size in shares)}\n")
    if queue.get("run_windows"):
        lines.append(f"RUN_WINDOWS:  {' '.join(queue['run_windows'])}\n")
    lines += [f"{name}:  {queue[key]}\n" for name, key in _EXITS if queue.get(key)]
    if queue.get("rerunnable"):
        lines.append("RERUNNABLE : yes\n")
    if queue.get("comment"):
        lines.append(f'ADMIN ACTION COMMENT: "{queue["comment"]}"\n')
    lines.append(f"USERS: {' '.join(queue.get('users') or ()) or 'all'}\n")
    lines.append(f"HOSTS:  {' '.join(queue.get('hosts') or ()) or 'all'}\n")
    return [line for line in lines if line]


def _run_limit(seconds: float) -> list[str]:
    return [" RUNLIMIT                \n", f" {seconds / 60:.1f} min\n"]


def _thresholds(queue: Queue) -> list[str]:
    return threshold_rows(queue.get("load_sched") or {}, queue.get("load_stop") or {})


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
    return lines + _blocks(queue.get("limits") or {})


def _blocks(limits: dict[str, float]) -> list[str]:
    return [f"{line}\n" for line in limit_blocks(limits)]


FIELDS = (
    ("queue_name", 15, "qname", lambda queue: str(queue["name"])),
    ("description", 50, "desc", lambda queue: str(queue.get("description") or "-")),
    ("priority", 10, "prio", counted("priority")),
    ("status", 15, "stat", _status),
    ("max", 10, "", _most),
    ("jl_u", 10, "jlu", nothing),
    ("jl_p", 10, "jlp", nothing),
    ("jl_h", 10, "jlh", nothing),
    ("njobs", 10, "", counted("njobs")),
    ("pend", 10, "", counted("pend")),
    ("run", 10, "", counted("run")),
    ("susp", 10, "", counted("susp")),
    ("rsv", 10, "", counted("rsv")),
    ("ususp", 10, "", counted("ususp")),
    ("ssusp", 10, "", counted("ssusp")),
    ("nice", 6, "", fixed("0")),
    (
        "max_corelimit", 15, "corelimit",
        lambda queue: shown_size(queue.get("limits"), "core_limit_kib") or "-",
    ),
    (
        "max_cpulimit", 15, "cpulimit",
        lambda queue: _minutes((queue.get("limits") or {}).get("cpu_limit_s")),
    ),
    (
        "default_cpulimit", 30, "def_cpulimit",
        lambda queue: _minutes(queue.get("default_cpu_limit_s")),
    ),
    ("max_runlimit", 15, "runlimit", lambda queue: _minutes(queue.get("run_limit_s"))),
    (
        "default_runlimit", 30, "def_runlimit",
        lambda queue: _minutes(queue.get("default_run_limit_s")),
    ),
    (
        "max_memlimit", 15, "memlimit",
        lambda queue: limit_text((queue.get("mem_limit_mib") or 0) * 1024) or "-",
    ),
    ("max_tasklimit", 15, "tasklimit", limited("tasks_max")),
    ("min_tasklimit", 15, "", limited("tasks_min")),
    ("users", 50, "", lambda queue: " ".join(queue.get("users") or ()) or "all"),
    ("hosts", 50, "", lambda queue: " ".join(queue.get("hosts") or ()) or "all"),
    ("policies", 50, "", lambda queue: " ".join(queue.get("policies") or ()) or "-"),
    ("run_windows", 50, "", lambda queue: " ".join(queue.get("run_windows") or ()) or "-"),
    ("exclusive", 10, "", lambda queue: "Y" if queue.get("exclusive") else "N"),
    ("admin_comment", 50, "", lambda queue: str(queue.get("comment") or "-")),
)  # fmt: skip
"""Name, recommended width, aliases, text."""
DEFAULT = "queue_name priority status max jl_u jl_p jl_h njobs pend run susp"


def _minutes(seconds: float | None) -> str:
    return f"{seconds / 60:.1f}" if seconds else "-"


def _render_shares(shares: list[Share]) -> list[str]:
    """Return the tree of a queue's shares, as ``-r`` shows it."""
    lines: list[str] = []
    for share in shares:
        lines += [
            f"SHARE_INFO_FOR: {share['account']}\n",
            " USER/GROUP   SHARES  PRIORITY  STARTED  RESERVED  CPU_TIME  RUN_TIME   ADJUST\n",
        ]
        lines += [
            f"{name:<10} {size:>7} {'-':>9} {'-':>8} {'-':>9} {'-':>9} {'-':>9} {'-':>8}\n"
            for name, size in share["members"]
        ]
        lines.append("\n")
    return lines


def _shares_of(queue: Queue, groups: list[dict[str, Any]]) -> list[Share]:
    """Return the accounts of a queue: its own, and its groups'."""
    if not queue.get("user_shares"):
        return []
    found: list[Share] = [{"account": f"{queue['name']}/", "members": queue["user_shares"]}]
    for group in groups:
        if group.get("queue") == queue["name"]:
            found.append(
                {"account": f"{queue['name']}/{group['name']}/", "members": group["shares"]}
            )
    return found


def execute(context: Context) -> int:
    """List the queues."""
    parsed = context.parsed
    custom = is_custom(parsed)
    known: list[Queue] = context.api.call("GET", "/queues")["queues"]
    by_name = {queue["name"]: queue for queue in known}
    missing = [name for name in parsed.rest if name not in by_name]
    if parsed.rest:
        known = [by_name[name] for name in dict.fromkeys(parsed.rest) if name in by_name]
    known.sort(key=lambda queue: -queue["priority"])
    hosts = _hosts_named(context, parsed.value("-m"))
    if hosts is None:
        context.err(f"{parsed.value('-m')}: Bad host name, host group name or cluster name")
        return FAILED
    known = [queue for queue in known if _is_wanted(parsed, queue, hosts)]
    if custom:
        context.out_block(
            render_custom(parsed, FIELDS, DEFAULT, known, command="bqueues", noun="QUEUES")
        )
    elif parsed.has("-l") or parsed.has("-r"):
        groups = context.api.call("GET", "/groups")["groups"] if parsed.has("-r") else []
        for place, queue in enumerate(known):
            shares = _render_shares(_shares_of(queue, groups)) if groups or parsed.has("-r") else []
            context.out_block([f"{_SEPARATOR}\n" if place else "", *render_queue(queue), *shares])
    elif known:
        lines = render_queues(known, wide=parsed.has("-w"))
        context.out_block(lines[1:] if parsed.has("-noheader") else lines)
    for name in missing:
        context.err(f"{name}: No such queue")
    return FAILED if missing else 0


def _hosts_named(context: Context, name: str) -> set[str] | None:
    """Return the hosts that ``-m`` names, a host or a group; none: all. None: there is no such."""
    if not name or name == "all":
        return set()
    if name in {row["name"] for row in context.api.call("GET", "/hosts")["hosts"]}:
        return {name}
    groups = context.api.call("GET", "/groups")["groups"]
    found = [g["members"] for g in groups if g["name"] == name and g["kind"] != "users"]
    return set(found[0]) if found else None


def _is_wanted(parsed: Parsed, queue: Queue, hosts: set[str]) -> bool:
    """Return whether a queue takes the user that was named, and one of the hosts."""
    user = parsed.value("-u")
    if user and user != "all" and queue.get("users") and user not in queue["users"]:
        return False
    return not hosts or not queue.get("hosts") or not hosts.isdisjoint(queue["hosts"])


def main() -> NoReturn:
    """Run ``bqueues``."""
    run_main(OPTIONS, USAGE, execute)
