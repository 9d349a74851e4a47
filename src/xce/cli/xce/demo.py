"""`xce demo`: a cluster of its own, a real mix of jobs through `bsub`, and what came of each.

Every job is announced with how it will end; the demo fails if one ends otherwise.
"""

import io
import os
import sys
import time
from pathlib import Path
from typing import Any, Final

from xce.cli.xce.cluster import NODE_MANAGER, open_api, running_daemons
from xce.cli.xce.demo_jobs import ARRAY_SIZE, DemoJob, SubmitError, kill_leftovers, submit_all
from xce.cli.xce.environment import render_how_to_go_on
from xce.cli.xce.launchers import store_launchers
from xce.cli.xce.progress import Progress
from xce.cli.xce.up import UpOptions, run_up
from xce.client.rest import Api, ProblemError, UnreachableError
from xce.daemon.fresh_config import HostsWanted
from xce.daemon.paths import find_layout
from xce.daemon.settings import Settings, load_settings

HOSTS: Final = HostsWanted(names="demo[1-4]", slots=16)
TIMEOUT_S: Final = 120.0
_LOOK_S: Final = 0.15
_ENDED: Final = ("DONE", "EXIT")


def run_demo(state_dir: str | None) -> int:
    """Run the demo; return 1 if anything ended otherwise than announced."""
    settings = load_settings(state_dir or os.environ.get("XCE_DEMO_DIR") or "~/.xce-demo")
    settings = Settings(settings.state_dir, is_default=False)
    layout = find_layout(settings.state_dir)
    jobs: list[DemoJob] = []
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # who reads it through a pipe sees it live too
    try:
        print("1. a cluster of four hosts with 16 slots each, on this machine")
        runs = NODE_MANAGER in running_daemons(layout)
        hosts = HostsWanted() if runs or (layout.config / "hosts.yaml").exists() else HOSTS
        status = run_up(settings, UpOptions(hosts, False, 60, cluster_name="demo"))
        if status != 0:
            return status
        launchers = store_launchers(settings.state_dir)
        environ = {**os.environ, "XCE_DIR": str(settings.state_dir)}
        environ["PATH"] = f"{launchers}:{environ.get('PATH', '')}"
        results = _make_results(settings.state_dir)
        kill_leftovers(environ)
        print("\n2. jobs, submitted with bsub")
        submit_all(results, environ, jobs)
        print("\n3. what they do")
        api = open_api(layout, wait_s=20)
        wait_for_jobs(api, jobs)
        print("\n4. what came of them")
        is_fine = tell_results(api, jobs)
        _tell_how_to_go_on(settings, results, jobs)
    except (SubmitError, ProblemError, UnreachableError) as error:
        print(f"\nthe demo failed: {error}", file=sys.stderr)
        print("what the daemons say: " + _command(settings, "logs"), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return _interrupted(settings, jobs)
    return 0 if is_fine else 1


def wait_for_jobs(api: Api, jobs: list[DemoJob]) -> None:
    """Show how far the jobs are until nothing is left to happen, or the time is over."""
    progress = Progress()
    deadline_s = time.monotonic() + TIMEOUT_S
    try:
        while time.monotonic() < deadline_s:
            look_at(api, jobs)
            text = "  ".join(render_state(job) for job in jobs)
            if all(is_settled(job) for job in jobs):
                progress.close(text)
                return
            progress.show(text)
            time.sleep(_LOOK_S)
    finally:
        progress.close()


def look_at(api: Api, jobs: list[DemoJob]) -> None:
    """Ask once how all jobs are."""
    singles = {job.jobid: job for job in jobs if not job.is_array}
    query = [("ids", ",".join(map(str, singles)))]
    for row in api.call("GET", "/jobs", query)["jobs"]:
        singles[row["jobid"]].row = row
    arrays = {job.jobid: job for job in jobs if job.is_array}
    query = [("ids", ",".join(map(str, arrays))), ("finished", "1")]
    for row in api.call("GET", "/arrays", query)["arrays"]:
        arrays[row["jobid"]].row = row


def is_settled(job: DemoJob) -> bool:
    """Return whether nothing more will happen to a job."""
    if job.is_array:
        return int(job.row.get("done", 0)) + int(job.row.get("exit", 0)) >= ARRAY_SIZE
    if job.expected == "PEND":
        return bool((job.row.get("reason") or {}).get("unsatisfiable"))
    return job.row.get("stat") in _ENDED


def render_state(job: DemoJob) -> str:
    """Return a job's name and state in a few signs."""
    if job.is_array:
        ended = int(job.row.get("done", 0)) + int(job.row.get("exit", 0))
        return f"{job.name} {ended}/{ARRAY_SIZE}"
    return f"{job.name} {job.row.get('stat', '-')}"


def found_end(job: DemoJob) -> str:
    """Return how a job ended, in the words of `DemoJob.expected`."""
    if job.is_array:
        done, failed = int(job.row.get("done", 0)), int(job.row.get("exit", 0))
        return "DONE" if (done, failed) == (ARRAY_SIZE, 0) else f"{done} DONE, {failed} EXIT"
    stat = str(job.row.get("stat"))
    code = job.row.get("exit_code")
    return f"EXIT {code}" if stat == "EXIT" else stat


def tell_results(api: Api, jobs: list[DemoJob]) -> bool:
    """Print the table of results and why the last job pends; return whether all is as announced."""
    rows = [("JOB", "NAME", "ANNOUNCED", "FOUND", "HOSTS", "WHAT ITS OUTPUT SAYS")]
    is_fine = True
    for job in jobs:
        trouble = job.check(job) if found_end(job) == job.expected else "ended otherwise"
        is_fine = is_fine and not trouble
        hosts = " ".join(f"{count}*{host}" for host, count in job.row.get("hosts") or [])
        said = f"NOT AS ANNOUNCED: {trouble}" if trouble else job.said
        rows.append((str(job.jobid), job.name, job.expected, found_end(job), hosts[:32], said))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip())
    for job in jobs:
        if job.expected == "PEND":
            why: dict[str, Any] = api.call("GET", f"/jobs/{job.jobid}/why")
            print(f"\n{why['sentence']}")
            for text in why.get("next") or []:
                print(f"    {text}")
    if not is_fine:
        print("\nnot everything ended as announced", file=sys.stderr)
    return is_fine


def _make_results(state_dir: Path) -> Path:
    """Return a new directory for this run's scripts and output."""
    parent = state_dir / "results"
    parent.mkdir(exist_ok=True)
    for number in range(1, 100_000):
        results = parent / f"{number:03d}"
        try:
            results.mkdir()
        except FileExistsError:
            continue
        return results
    raise SubmitError(f"{parent} is full: remove it")


def _tell_how_to_go_on(settings: Settings, results: Path, jobs: list[DemoJob]) -> None:
    print(f"\noutput:     {results}    e.g. cat {results}/hello.{jobs[0].jobid}")
    for line in render_how_to_go_on(settings):
        print(line)


def _interrupted(settings: Settings, jobs: list[DemoJob]) -> int:
    """End this run's jobs and tell what is left."""
    print("\ninterrupted", file=sys.stderr)
    layout = find_layout(settings.state_dir)
    if jobs:
        api = open_api(layout, wait_s=2)
        names = [str(job.jobid) for job in jobs]
        try:
            document = {"action": "kill", "force": True, "select": {"jobs": names}}
            api.call("POST", "/jobs/actions", document=document)
            print("the jobs of this run were killed", file=sys.stderr)
        except (ProblemError, UnreachableError):
            print("its jobs could not be killed", file=sys.stderr)
    if running_daemons(layout):
        print(f"the cluster is up still; end it:  {_command(settings, 'down --jobs')}")
    return 130


def _command(settings: Settings, words: str) -> str:
    return f"{Path(sys.prefix) / 'bin' / 'xce'} {words} --dir {settings.state_dir}"
