"""LSF's job report, as it is added behind a job's output in its ``-o`` file. Pure.

Clients read it: the status is the line two above ``Resource usage summary:``.
"""

import posixpath
from collections.abc import Callable
from typing import Final, NamedTuple

from xce.model.display import end_cause_text
from xce.model.effect import Launch
from xce.model.ids import SECOND_US, Micros
from xce.model.job import ENDS_AS_DONE, EndCause
from xce.model.observation import AttemptEnded
from xce.worker.streams import expand_path, is_same_file, output_directory

_DASHES: Final = "-" * 60
_TEXT_MAX: Final = 64 * 1024


class Around(NamedTuple):
    """What a report tells beside what was started and how it ended."""

    script: str
    """The text that ran."""
    cwd: str
    """Where it ran."""
    home: str
    """The user's home directory."""
    now_us: Micros
    """The time of the report."""
    render_date: Callable[[Micros], str]
    """Renders an instant as ``date`` does, in the host's zone."""


def render_report(launch: Launch, end: AttemptEnded, around: Around) -> str:
    """Return the report of an attempt that has ended.

    Args:
        launch: What was started.
        end: How it ended; its ages are relative to the time of the report.
        around: What else is told.
    """
    _, error = _streams(launch, end, cwd=around.cwd)
    lines = [
        "",
        _DASHES,
        f"Sender: LSF System <lsfadmin@{launch.hosts[0][0] if launch.hosts else ''}>",
        f"Subject: {report_subject(launch, end)}",
        "",
        *report_body(launch, end, around),
        "",
        "The output (if any) is above this job summary.",
        "",
    ]
    if error:
        lines += ["", "PS:", "", f"Read file <{error}> for stderr output of this job.", ""]
    return "\n".join(lines) + "\n"


def render_mail(launch: Launch, end: AttemptEnded, around: Around) -> str:
    """Return the text of the mail that is the report."""
    lines = report_body(launch, end, around)
    output, error = _streams(launch, end, cwd=around.cwd)
    lines += ["", "PS:", ""]
    if output:
        lines.append(f"Read file <{output}> for stdout output of this job.")
    else:
        jobid = f'"{launch.job}[{end.index}]"' if end.index else str(launch.job)
        lines.append(f"The output is kept for a while: xcecli output {jobid}")
    if error:
        lines.append(f"Read file <{error}> for stderr output of this job.")
    return "\n".join(lines) + "\n"


def render_start(launch: Launch, end: AttemptEnded, around: Around) -> str:
    """Return the text of the mail that says that a job has begun."""
    lines = _places(launch, end, around)
    # How it ends is not known yet.
    lines = [line for line in lines if not line.startswith(("Terminated at", "Results reported"))]
    lines += ["", "Your job looks like:", "", _DASHES, "# LSBATCH: User input"]
    lines += [around.script[:_TEXT_MAX].rstrip("\n"), _DASHES]
    return "\n".join(lines) + "\n"


def _streams(launch: Launch, end: AttemptEnded, *, cwd: str) -> tuple[str, str]:
    """Return the files of standard output and error; empty: there is none, or it is the other."""
    directory = output_directory(launch, end.index, launch.hosts[0][0])
    output, error = (
        posixpath.join(directory, expand_path(path, job=launch.job, index=end.index))
        if path
        else ""
        for path in (launch.spec.files.output, launch.spec.files.error)
    )
    return output, "" if error and is_same_file(cwd, output, error) else error


def report_body(launch: Launch, end: AttemptEnded, around: Around) -> list[str]:
    """Return the lines of a report from where the job was submitted to what it used."""
    return [
        *_places(launch, end, around),
        "",
        "Your job looked like:",
        "",
        _DASHES,
        "# LSBATCH: User input",
        around.script[:_TEXT_MAX].rstrip("\n"),
        _DASHES,
        "",
        *_outcome(launch, end),
        "",
        "Resource usage summary:",
        "",
        *_usage(launch, end, around.now_us),
    ]


def _label(launch: Launch) -> str:
    spec = launch.spec
    return f"{spec.name}[{spec.array}]" if spec.array and spec.name else spec.name or spec.command


def report_subject(launch: Launch, end: AttemptEnded) -> str:
    """Return the line that says which job it is about, and how it ended."""
    jobid = f"{launch.job}[{end.index}]" if end.index else str(launch.job)
    outcome = "Done" if _is_done(launch, end) else "Exited"
    return f"Job {jobid}: <{_label(launch)}> in cluster <{launch.cluster}> {outcome}"


def _places(launch: Launch, end: AttemptEnded, around: Around) -> list[str]:
    now_us, render_date = around.now_us, around.render_date
    origin = f"from host <{launch.spec.from_host}>"
    by = f"by user <{launch.owner.user}> in cluster <{launch.cluster}>"
    submitted = f"at {render_date(launch.submit_at_us)}"
    started = render_date(now_us - end.started_age_us)
    return [
        f"Job <{_label(launch)}> was submitted {origin} {by} {submitted}",
        *_executed(launch, started),
        f"<{around.home}> was used as the home directory.",
        f"<{around.cwd}> was used as the working directory.",
        f"Started at {started}",
        f"Terminated at {render_date(now_us - end.ended_age_us)}",
        f"Results reported at {render_date(now_us)}",
    ]


def _executed(launch: Launch, started: str) -> list[str]:
    hosts = [f"{slots}*{host}" if slots > 1 else host for host, slots in launch.hosts] or [""]
    where = f"in queue <{launch.queue}>, as user <{launch.owner.user}> in cluster"
    return [
        f"Job was executed on host(s) <{hosts[0]}>, {where} <{launch.cluster}> at {started}",
        *(f"{' ' * 28}<{host}>" for host in hosts[1:]),
    ]


def _is_done(launch: Launch, end: AttemptEnded) -> bool:
    if end.cause in ENDS_AS_DONE:
        return True
    is_well = not end.exit_code or end.exit_code in launch.success_codes
    return is_well and not end.signal and not end.cause


def _outcome(launch: Launch, end: AttemptEnded) -> list[str]:
    lines = []
    if end.cause:
        lines.append(f"{end_cause_text(EndCause(end.cause))}.")
    if end.detail:
        lines.append(end.detail)
    if end.signal and not _is_done(launch, end):
        lines.append(f"Exited with signal termination: {end.signal}.")
    elif not _is_done(launch, end):
        lines.append(f"Exited with exit code {end.exit_code}.")
    else:
        lines.append("Successfully completed.")
    return lines


def _usage(launch: Launch, end: AttemptEnded, now_us: Micros) -> list[str]:
    run_us = end.started_age_us - end.ended_age_us
    turnaround_us = now_us - end.ended_age_us - launch.submit_at_us
    max_mib = round(end.max_mem_kib / 1024) if end.max_mem_kib else None
    asked_mib = launch.mem_request_mib or None
    delta = None if asked_mib is None or max_mib is None else asked_mib - max_mib
    values = (
        ("CPU time :", f"{(end.user_us + end.system_us) / SECOND_US:.2f} sec."),
        ("Max Memory :", "-" if max_mib is None else f"{max_mib} MB"),
        ("Average Memory :", "-"),
        ("Total Requested Memory :", "-" if asked_mib is None else f"{asked_mib:.2f} MB"),
        ("Delta Memory :", "-" if delta is None else f"{delta:.2f} MB"),
        ("Max Swap :", "-"),
        ("Max Processes :", str(end.max_processes) if end.max_processes else "-"),
        ("Max Threads :", str(end.max_threads) if end.max_threads else "-"),
        ("Run time :", f"{max(0, round(run_us / SECOND_US))} sec."),
        ("Turnaround time :", f"{max(0, round(turnaround_us / SECOND_US))} sec."),
    )
    return [f"    {label:<45}{value}" for label, value in values]
