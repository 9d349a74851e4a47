"""`xce down`: end the daemons of this machine; jobs go on, unless they are to be ended first."""

import os
import sys
import time
from typing import Final

from xce.cli.xce.cluster import NODE_MANAGER, count_running, open_api, running_daemons
from xce.cli.xce.progress import Progress
from xce.client.rest import ProblemError, UnreachableError
from xce.daemon.components import end_daemons, owner_of
from xce.daemon.paths import Layout, find_layout
from xce.daemon.processes import ProcessId, each_command_line, end_processes, identify
from xce.daemon.settings import Settings

KILL_GRACE_S: Final = 35.0
"""INT, TERM and KILL come 10 s apart by default; after this long jobs are killed at once."""
FORCE_GRACE_S: Final = 20.0
STOP_GRACE_S: Final = 60.0


def run_down(settings: Settings, *, with_jobs: bool) -> int:
    """End the cluster on this machine; return the exit status."""
    layout = find_layout(settings.state_dir)
    if owner_of(layout.root) != os.geteuid():
        print(f"xce down: the cluster of {layout.root} is run by somebody else", file=sys.stderr)
        return 1
    daemons = running_daemons(layout)
    shepherds = find_shepherds(layout)
    if not daemons:
        return _nothing_runs(settings, shepherds, with_jobs=with_jobs)
    jobs_left = count_running(layout)
    if with_jobs and not _end_jobs(layout):
        return 1
    manager = daemons.pop(NODE_MANAGER, None)
    if manager is not None:
        end_processes([manager], grace_s=STOP_GRACE_S)
    left = running_daemons(layout)
    left.pop(NODE_MANAGER, None)
    end_daemons(left, grace_s=10)
    if with_jobs:
        end_processes(find_shepherds(layout), grace_s=5)
        print("the cluster is down; its jobs were ended")
    elif jobs_left:
        jobs = "1 running job goes" if jobs_left == 1 else f"{jobs_left} running jobs go"
        them = "it" if jobs_left == 1 else "them"
        print(f"the cluster is down; {jobs} on, `xce up` finds {them} again")
    elif jobs_left is None:
        print("the cluster is down; it did not answer, so jobs that ran go on")
    else:
        print("the cluster is down; no job ran")
    return 0


def find_shepherds(layout: Layout) -> list[ProcessId]:
    """Return the shepherds of this cluster's hosts: processes that name its peer directory."""
    places = (f"{layout.peer}/", f"{layout.hosts}/")
    found = []
    for pid, words in each_command_line():
        is_shepherd = any("/worker/shepherd/" in word for word in words)
        if is_shepherd and any(word.startswith(places) for word in words):
            process = identify(pid)
            if process is not None:
                found.append(process)
    return found


def _nothing_runs(settings: Settings, shepherds: list[ProcessId], *, with_jobs: bool) -> int:
    """Tell that no daemon runs."""
    if with_jobs and shepherds:
        print(
            "xce down: the cluster is down already, but its jobs may still run: "
            "bring it up (xce up), then end both (xce down --jobs)",
            file=sys.stderr,
        )
        return 1
    print(f"no cluster runs here for {settings.state_dir}")
    return 0


def _end_jobs(layout: Layout) -> bool:
    """End all jobs and wait until they are gone; return whether they are."""
    progress = Progress()
    try:
        for force, grace_s in ((False, KILL_GRACE_S), (True, FORCE_GRACE_S)):
            _kill_all(layout, force=force)
            deadline_s = time.monotonic() + grace_s
            while time.monotonic() < deadline_s:
                left = _count_unfinished(layout)
                if left == 0:
                    progress.close()
                    return True
                progress.show(f"ending jobs: {left} left")
                time.sleep(0.1)
    except (ProblemError, UnreachableError) as error:
        progress.close()
        print(f"xce down: jobs cannot be ended: {error}", file=sys.stderr)
        return False
    progress.close()
    print("xce down: some jobs cannot be ended; see bjobs -u all", file=sys.stderr)
    return False


def _kill_all(layout: Layout, *, force: bool) -> None:
    """Ask for the end of all jobs; that there are none is no problem."""
    api = open_api(layout, wait_s=10)
    try:
        select = {"all": True, "user": "all"}
        document = {"action": "kill", "force": force, "select": select}
        api.call("POST", "/jobs/actions", document=document, in_runs=True)
    except ProblemError as error:
        if error.code != "unknown-job":
            raise
    finally:
        api.close()


def _count_unfinished(layout: Layout) -> int:
    """Return how many jobs have not ended; arrays count by rows, which is enough to see zero."""
    api = open_api(layout, wait_s=10)
    try:
        query = [("user", "all"), ("fields", "jobid,index,count")]
        answer = api.call("GET", "/jobs", query)
        return sum(int(row.get("count", 1)) for row in answer["jobs"])
    finally:
        api.close()
