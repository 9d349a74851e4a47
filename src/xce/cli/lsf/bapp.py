"""``bapp``: list application profiles."""

from __future__ import annotations

from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.jobs_fields import limit_text
from xce.cli.lsf.options import FLAG, Options
from xce.cli.lsf.process_limits import limit_blocks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    App = dict[str, Any]

USAGE = """\
Usage: bapp [options] [application_profile ...]
  -w              nothing cut
  -l              long
  -alloc          counted in slots: so they always are
"""
OPTIONS = Options(dict.fromkeys(("-w", "-l", "-alloc", "-noheader"), FLAG), {}, bundled=True)
_WIDTH = 20
_SEPARATOR = "-" * 79
_TEXTS = (
    ("RES_REQ", "resreq"),
    ("PRE_EXEC", "pre_exec"),
    ("POST_EXEC", "post_exec"),
    ("REQUEUE_EXIT_VALUES", "requeue_exit_values"),
    ("SUCCESS_EXIT_VALUES", "success_exit_values"),
    ("MAX_JOB_REQUEUE", "max_requeues"),
)


def render_apps(apps: list[App], *, wide: bool) -> list[str]:
    """Return the table."""
    width = max([_WIDTH, *[len(app["name"]) for app in apps]]) if wide else _WIDTH
    head = f"{'NJOBS':>8} {'PEND':>8} {'RUN':>8} {'SUSP':>8}"
    lines = [f"{'APPLICATION_NAME':<{width}} {head}\n"]
    for app in apps:
        susp = app["ssusp"] + app["ususp"]
        counts = f"{app['njobs']:>8} {app['pend']:>8} {app['run']:>8} {susp:>8}"
        lines.append(f"{app['name'][:width]:<{width}} {counts}\n")
    return lines


def render_app(app: App) -> list[str]:
    """Return the long form of one profile."""
    default = "  This is the default application profile.\n" if app.get("is_default") else ""
    lines = [
        "\n",
        f"APPLICATION NAME: {app['name']}\n",
        f"  -- {app.get('description') or 'No description provided.'}\n",
        default,
        "\n",
        "STATISTICS:\n",
        "   NJOBS     PEND      RUN    SSUSP    USUSP      RSV\n",
        "".join([f"{app[name]:>8} " for name in _COUNTS]).rstrip() + "\n",
        "\n",
    ]
    parameters = _parameters(app)
    if parameters:
        lines += ["PARAMETERS:\n", "\n", *parameters]
    return [line for line in lines if line]


_COUNTS = ("njobs", "pend", "run", "ssusp", "ususp", "rsv")


def _parameters(app: App) -> list[str]:
    lines: list[str] = []
    for heading, member in (("RUNLIMIT", "run_limit_s"), ("RUNTIME", "estimate_s")):
        if app.get(member):
            lines += [f" {heading}\n", f" {app[member] / 60:.1f} min\n"]
    if app.get("mem_limit_mib"):
        lines += [" MEMLIMIT\n", f"{limit_text(app['mem_limit_mib'] * 1024):>9} \n"]
    lines += [f"{line}\n" for line in limit_blocks(app.get("limits") or {})]
    least, most = app.get("tasks_min") or 1, app.get("tasks_max")
    if most:
        lines += [" TASKLIMIT\n", f" {least} {most}\n" if least > 1 else f" {most}\n"]
    elif least > 1:
        lines += [" TASKLIMIT (minimum)\n", f" {least}\n"]
    lines += [f"{name}:  {app[member]}\n" for name, member in _TEXTS if app.get(member)]
    for heading, member in (("RERUNNABLE", "rerunnable"), ("SELF_FENCE", "self_fence")):
        if app.get(member) is not None:
            lines.append(f"{heading}: {'Y' if app[member] else 'N'}\n")
    return lines


def execute(context: Context) -> int:
    """List the profiles."""
    parsed = context.parsed
    known: list[App] = context.api.call("GET", "/apps")["apps"]
    by_name = {app["name"]: app for app in known}
    missing = [name for name in parsed.rest if name not in by_name]
    if parsed.rest:
        known = [by_name[name] for name in dict.fromkeys(parsed.rest) if name in by_name]
    if parsed.has("-l"):
        for place, app in enumerate(known):
            context.out_block([f"{_SEPARATOR}\n" if place else "", *render_app(app)])
    elif known:
        lines = render_apps(known, wide=parsed.has("-w"))
        context.out_block(lines[1:] if parsed.has("-noheader") else lines)
    elif not parsed.rest:
        context.err("No application profiles are defined")
    for name in missing:
        context.err(f"{name}: No such application profile")
    return FAILED if missing else 0


def main() -> NoReturn:
    """Run ``bapp``."""
    run_main(OPTIONS, USAGE, execute)
