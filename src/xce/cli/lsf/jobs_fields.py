"""The fields of ``bjobs -o``: name, width, alias, and what each says of a job row.

Three kinds: those that XCE has a value for; those of LSF that name something which XCE has not
(licence projects, energy): they are empty, as LSF prints them for jobs without; any other
name is refused.
"""

from __future__ import annotations

from xce.cli.lsf.gpu_text import alloc_text, count_text
from xce.cli.lsf.process_limits import shown_count, shown_size
from xce.cli.lsf.rows import (
    exec_cwd,
    exit_code,
    expand_directory,
    expand_pattern,
    finish_text,
    is_eligible,
    is_finished,
    is_pending,
    job_name,
    one_line,
    pend_time_s,
    pend_times_s,
    pids_text,
    reason_lines,
    run_time_s,
    short_hosts,
    slot_count,
    under_home,
    used,
)
from xce.cli.lsf.signals import warning_action
from xce.cli.lsf.times import render_hms, render_minute

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Row = dict[str, Any]
    Render = Callable[[Row, "View"], str]


class View:
    """What the text of a field depends on beside the row."""

    __slots__ = ("hms", "now_s", "unit")

    def __init__(self, now_s: float, *, hms: bool = False, unit: str = "") -> None:
        """Args: the cluster's time; whether spans are ``hh:mm:ss``; unit of sizes without one."""
        self.now_s = now_s
        self.hms = hms
        self.unit = unit


class Field:
    """One field."""

    __slots__ = ("members", "name", "render", "width")

    def __init__(self, name: str, width: int, members: str, render: Render | None) -> None:
        """Args: full name; recommended width; the row's members that it reads; its text."""
        self.name = name
        self.width = width
        self.members = members
        self.render = render


def size_text(mib: float | None, unit: str) -> str:
    """Return a size: ``5.2 Gbytes`` by itself, ``0.01G`` in a unit (third decimal rounded up)."""
    if mib is None:
        return ""
    if not mib and not unit:
        return "0 Mbytes"
    letter = unit.upper().removesuffix("B")
    if letter in _POWERS:
        hundredths = -int(-mib * 100 // 1024.0 ** _POWERS[letter])
        return f"{hundredths / 100:.2f}{letter}"
    value, power = float(mib) * 1024, 0
    while value >= 1024 and power < len(_PREFIXES) - 1:
        value, power = value / 1024, power + 1
    number = f"{value:.1f}".removesuffix(".0")
    return f"{number}{_PREFIXES[power]}" if letter == "S" else f"{number} {_PREFIXES[power]}bytes"


_POWERS = {"K": -1, "M": 0, "G": 1, "T": 2, "P": 3, "E": 4, "Z": 5}
_PREFIXES = "KMGTPEZ"


def limit_text(kib: int | None, unit: str = "") -> str:
    """Return a memory limit as LSF shows it: ``4 G``, ``500 M``, ``100 K``; in a unit ``4.00G``."""
    if not kib:
        return ""
    return size_text(kib / 1024, unit) if _is_unit(unit) else _plain_limit(kib)


def _is_unit(unit: str) -> bool:
    """Whether sizes are shown in one unit; ``S`` and nothing leave it to the size."""
    return unit.upper().removesuffix("B") in _POWERS


def _limit(member: str) -> Render:
    """Return how a limit of ``limits`` is shown."""

    def render(row: Row, view: View) -> str:
        kib = (row.get("limits") or {}).get(member)
        if kib is None or not _is_unit(view.unit):
            return shown_size(row.get("limits"), member)
        return size_text(kib / 1024, view.unit)

    return render


def _plain_limit(kib: int) -> str:
    value, power = float(kib), 0
    while value >= 1024 and power < len(_PREFIXES) - 1:
        value, power = value / 1024, power + 1
    return f"{value:.1f}".removesuffix(".0") + f" {_PREFIXES[power]}"


def _text(member: str) -> Render:
    return lambda row, _: str(row.get(member) or "")


def _number(member: str) -> Render:
    return lambda row, _: "" if row.get(member) is None else str(row[member])


def _minute(member: str) -> Render:
    return lambda row, _: "" if row.get(member) is None else render_minute(row[member])


def _span(seconds: float, view: View) -> str:
    return render_hms(seconds) if view.hms else f"{int(seconds)} second(s)"


def _cpu_used(row: Row, view: View) -> str:
    cpu_s = used(row, "cpu_s")
    if cpu_s is None:
        return ""
    return render_hms(cpu_s) if view.hms else f"{cpu_s:.1f} second(s)"


def _size(name: str) -> Render:
    return lambda row, view: size_text(used(row, name), view.unit)


def _threads(row: Row, view: View) -> str:
    return str((row.get("usage") or {}).get("threads", ""))


def _idle_factor(row: Row, view: View) -> str:
    cpu_s, run_s = used(row, "cpu_s"), run_time_s(row, view.now_s)
    return "" if cpu_s is None or run_s <= 0 else f"{cpu_s / run_s:.2f}"


def _run_time(row: Row, view: View) -> str:
    return _span(run_time_s(row, view.now_s), view) if row.get("start_at") is not None else ""


def _pend_time(row: Row, view: View) -> str:
    return _seconds(pend_time_s(row, view.now_s), view)


def _pend_part(place: int) -> Render:
    """Return what tells how long a job was eligible (0) or ineligible (1) while it pended."""

    def render(row: Row, view: View) -> str:
        found = pend_times_s(row, view.now_s)
        return "" if found is None else _seconds(found[place], view)

    return render


def _seconds(seconds: int, view: View) -> str:
    return render_hms(seconds) if view.hms else str(seconds)


def _time_left(row: Row, view: View) -> str:
    limit, start = row.get("run_limit_s"), row.get("start_at")
    if not limit or start is None or is_finished(row):
        return ""
    left = max(0, int(limit - run_time_s(row, view.now_s)))
    return f"{left // 3600}:{left // 60 % 60} L"


def _percent(row: Row, view: View) -> str:
    limit, estimate = row.get("run_limit_s"), row.get("estimate_s")
    whole = estimate or limit
    if not whole or row.get("start_at") is None or is_finished(row):
        return ""
    share = 100 * run_time_s(row, view.now_s) / whole
    if not estimate:
        return f"{min(share, 100):.2f}% L"
    return f"{share:.2f}% {'E' if share <= 100 else 'X'}"


def _run_limit(row: Row, view: View) -> str:
    limit = row.get("run_limit_s")
    if not limit:
        return ""
    return render_hms(limit) if view.hms else f"{limit / 60:.1f}"


def _exit_code(row: Row, view: View) -> str:
    code = exit_code(row)
    return "" if code is None else str(code)


def _pend_reason(row: Row, view: View) -> str:
    return f"{reason_lines(row)[0]};" if is_pending(row) else ""


def _pend_state(row: Row, view: View) -> str:
    if not is_pending(row):
        return "NOTPEND"
    return "EPEND" if is_eligible(row) else "IPEND"


def _pids(row: Row, view: View) -> str:
    return "" if is_finished(row) else pids_text(row)


def _path(member: str) -> Render:
    return lambda row, _: expand_pattern(row.get(member) or "", row)


def _when_started(text: Callable[[Row], str]) -> Render:
    return lambda row, _: text(row) if row.get("start_at") is not None else ""


def _gpu_setting(row: Row, name: str) -> str:
    items = [item.partition("=") for item in str(row.get("gpu_asked") or "").split(":")]
    return {key: value for key, _, value in items}.get(name, "")


def _make() -> tuple[dict[str, Field], dict[str, str]]:
    """Return the fields by full name, and the full names by alias."""
    fields: dict[str, Field] = {}
    aliases: dict[str, str] = {}
    for name, width, alias, members, render in _KNOWN:
        fields[name] = Field(name, width, members, render)
        for one in alias.split():
            aliases[one] = name
    for text in _EMPTY.split():
        name, width_text, *more = text.split("/")
        fields[name] = Field(name, int(width_text), "", None)
        for one in more:
            aliases[one] = name
    return fields, aliases


_KNOWN: tuple[tuple[str, int, str, str, Render], ...] = (
    ("jobid", 7, "id", "", _number("jobid")),
    ("jobindex", 8, "", "", lambda row, _: str(row.get("index") or 0)),
    ("stat", 5, "", "stat", _text("stat")),
    ("user", 7, "", "user", _text("user")),
    ("queue", 10, "", "queue", _text("queue")),
    ("job_name", 10, "name", "name", lambda row, _: job_name(row)),
    ("proj_name", 11, "proj project", "project", _text("project")),
    ("job_priority", 12, "priority", "priority", _text("priority")),
    ("dependency", 15, "", "dependency", _text("dependency")),
    ("pend_reason", 11, "", "stat,reason", _pend_reason),
    ("pendstate", 9, "", "stat,reason", _pend_state),
    ("command", 15, "cmd", "command", lambda row, _: one_line(row.get("command") or "")),
    ("pids", 20, "", "pid,stat,usage", _pids),
    ("exit_code", 10, "", "stat,exit_code,signal,cause,start_at", _exit_code),
    ("exit_reason", 50, "", "cause_text", _text("cause_text")),
    ("from_host", 11, "", "from_host", _text("from_host")),
    ("first_host", 11, "", "hosts", lambda row, _: short_hosts(row, 1).rpartition("*")[2]),
    ("exec_host", 11, "", "hosts", lambda row, _: short_hosts(row)),
    ("nexec_host", 10, "", "hosts", lambda row, _: str(len(row.get("hosts") or ()) or "")),
    ("alloc_slot", 20, "", "hosts", lambda row, _: short_hosts(row)),
    ("nalloc_slot", 10, "", "hosts", lambda row, _: str(slot_count(row) or "")),
    ("slots", 5, "", "hosts", lambda row, _: str(slot_count(row) or "")),
    ("nreq_slot", 10, "", "tasks_max", _text("tasks_max")),
    ("min_req_proc", 12, "", "tasks_min", _text("tasks_min")),
    ("max_req_proc", 12, "", "tasks_max", _text("tasks_max")),
    ("ask_hosts", 30, "", "hosts_asked", _text("hosts_asked")),
    ("exclusive", 13, "", "exclusive", lambda row, _: "Y" if row.get("exclusive") else "N"),
    ("submit_time", 15, "", "submit_at", _minute("submit_at")),
    ("start_time", 15, "", "start_at", _minute("start_at")),
    ("finish_time", 16, "", "stat,start_at,end_at,run_limit_s,estimate_s",
     lambda row, _: finish_text(row)),
    ("specified_start_time", 20, "sstart_time", "begin_at", _minute("begin_at")),
    ("specified_terminate_time", 24, "sterminate_time", "deadline_at", _minute("deadline_at")),
    ("time_left", 11, "", "stat,start_at,end_at,run_limit_s", _time_left),
    ("%complete", 11, "", "stat,start_at,end_at,run_limit_s,estimate_s", _percent),
    ("estimated_run_time", 20, "ertime", "estimate_s", _text("estimate_s")),
    ("pend_time", 12, "", "submit_at,start_at,end_at", _pend_time),
    ("exception_status", 16, "except_stat", "exceptions",
     lambda row, _: " ".join(row.get("exceptions") or ())),
    ("ependtime", 12, "", "submit_at,start_at,end_at,ineligible_s", _pend_part(0)),
    ("ipendtime", 12, "", "submit_at,start_at,end_at,ineligible_s", _pend_part(1)),
    ("run_time", 15, "", "start_at,end_at", _run_time),
    ("cpu_used", 10, "", "cpu_s,usage", _cpu_used),
    ("mem", 10, "", "usage", _size("mem_mib")),
    ("max_mem", 10, "", "max_mem_mib,usage", _size("max_mem_mib")),
    ("avg_mem", 10, "", "usage", _size("avg_mem_mib")),
    ("swap", 10, "", "usage", _size("swap_mib")),
    ("nthreads", 10, "", "usage", _threads),
    ("idle_factor", 11, "", "start_at,end_at,cpu_s,usage", _idle_factor),
    ("memlimit", 10, "", "mem_limit_kib",
     lambda row, view: limit_text(row.get("mem_limit_kib"), view.unit)),
    ("swaplimit", 10, "", "limits", _limit("swap_limit_kib")),
    ("stacklimit", 10, "", "limits", _limit("stack_limit_kib")),
    ("filelimit", 10, "", "limits", lambda row, _: shown_size(row.get("limits"), "file_limit_kib")),
    ("corelimit", 10, "", "limits", _limit("core_limit_kib")),
    ("processlimit", 12, "", "limits",
     lambda row, _: shown_count(row.get("limits"), "process_limit")),
    ("runtimelimit", 12, "", "run_limit_s", _run_limit),
    ("combined_resreq", 20, "cresreq", "resreq", _text("resreq")),
    ("effective_resreq", 17, "eresreq", "resreq,start_at",
     _when_started(lambda row: f"{row['resreq']} " if row.get("resreq") else "")),
    ("gpu_num", 10, "gnum", "gpus", lambda row, _: count_text(row)),
    ("gpu_mode", 20, "gmode", "gpu_asked", lambda row, _: _gpu_setting(row, "mode")),
    ("j_exclusive", 15, "j_excl", "gpu_asked", lambda row, _: _gpu_setting(row, "j_exclusive")),
    ("gpu_alloc", 30, "galloc", "gpus", lambda row, _: alloc_text(row)),
    ("user_group", 15, "ugroup", "user_group", _text("user_group")),
    ("interactive", 11, "", "interactive",
     lambda row, _: f"-{row['interactive']}" if row.get("interactive") else ""),
    ("input_file", 10, "", "input", _path("input")),
    ("output_file", 11, "", "output", _path("output")),
    ("error_file", 10, "", "error", _path("error")),
    ("sub_cwd", 10, "", "cwd,home", lambda row, _: under_home(row.get("cwd") or "", row)),
    ("exec_home", 10, "", "home,start_at", _when_started(lambda row: row.get("home") or "")),
    ("exec_cwd", 10, "", "cwd,cwd_given,user,project,group,user_group,hosts,start_at",
     _when_started(exec_cwd)),
    ("job_group", 10, "group", "group", _text("group")),
    ("pre_exec_command", 16, "pre_cmd", "pre_exec", _text("pre_exec")),
    ("post_exec_command", 17, "post_cmd", "post_exec", _text("post_exec")),
    ("warning_action", 15, "warn_act", "warning_signal,warning_command",
     lambda row, _: warning_action(row)),
    ("action_warning_time", 19, "warn_time", "warning_s",
     lambda row, _: f"{row['warning_s'] / 60:g}" if row.get("warning_s") else ""),
    ("application", 13, "app", "app", _text("app")),
    ("job_description", 17, "description", "description",
     lambda row, _: one_line(row.get("description") or "")),
    ("output_dir", 15, "", "output_dir,user,project,group,user_group,hosts",
     lambda row, _: expand_directory(row.get("output_dir") or "", row)),
)  # fmt: skip
_EMPTY = """
service_class/13/sla
rsvid/40 esub/20 kill_reason/50 suspend_reason/50 resume_reason/50
kill_issue_host/50 suspend_issue_host/50 resume_issue_host/50 charged_saap/50/saap
resize_notification_command/27/resize_cmd
host_file/10 estimated_start_time/20/estart_time
ru_utime/12 ru_stime/12
estimated_sim_start_time/24/esstart_time effective_plimit/18 plimit_remain/15 effective_eplimit/19
eplimit_remain/16
hrusage/50 network_req/15 plimit/10
eplimit/10 licproject/20 forward_cluster/15/fwd_cluster forward_time/15/fwd_time
srcjobid/8 dstjobid/8 source_cluster/15/srcluster energy/10 gpfsio/10 cpu_peak/10 mem_efficiency/10
cpu_efficiency/10 cpu_peak_efficiency/10 average_cpu_efficiency/10 cpu_peak_reached_duration/10
"""
FIELDS, ALIASES = _make()
SIZED = frozenset(
    (
        "mem", "max_mem", "avg_mem", "memlimit", "swap", "swaplimit", "corelimit", "stacklimit",
        "hrusage",
    )
)  # fmt: skip
"""Fields that take a unit."""
DEFAULT_JSON = "jobid user stat queue from_host exec_host job_name submit_time"
"""What ``-json`` says without ``-o``."""
