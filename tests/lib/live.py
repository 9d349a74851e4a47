"""A live cluster in a directory of its own: real daemons, real jobs, ended by pid whatever happens.

``with open_live() as live:`` has a cluster that is not up yet. Its processes are found by their
command lines, or by its directory's name in their environment; never by a program's name.
"""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from other_user import IS_ROOT, skip_unless_reachable

from xce.cli.xce.launchers import store_launchers
from xce.client.rest import Api, ProblemError, UnreachableError, make_key
from xce.daemon.components import find_daemons, owner_of
from xce.daemon.paths import find_layout
from xce.daemon.processes import (
    ProcessId,
    each_command_line,
    end_processes,
    identify,
    send_signal,
    wait_for_end,
)

PATIENCE_S = 60.0
KINDS = ("controller", "scheduler", "apiserver", "history", "worker", "shepherd", "node-manager")
Row = dict[str, Any]
DAEMONISE = """
python3 - "$@" <<'END'
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open("{file}.new", "w") as file:
            file.write(str(os.getpid()))
        os.rename("{file}.new", "{file}")
        {before}
        time.sleep(300)
    os._exit(0)
END
while [ ! -e {file} ]; do sleep 0.02; done
"""
"""A job that leaves a daemon, whose pid is in ``{file}``, and ends then."""
Found = TypeVar("Found")


def until(
    look: Callable[[], Found], what: str, *, patience_s: float = PATIENCE_S, pause_s: float = 0.03
) -> Found:
    """Return what ``look`` gives as soon as that is true.

    While the whole machine stands still everybody does: a step counts for a part of the patience
    at most.
    """
    left_s, before_s = patience_s, time.monotonic()
    while not (found := look()):
        assert left_s > 0, f"in vain waited for: {what}"
        time.sleep(pause_s)
        now_s = time.monotonic()
        left_s -= min(now_s - before_s, patience_s / 10)
        before_s = now_s
    return found


def is_alive(pid: int) -> bool:
    """Return whether a process runs."""
    return identify(pid) is not None


def pid_in(live: "Live", name: str) -> int:
    """Return the pid that a job has written into a file."""
    return int(until(lambda: live.file(name).strip(), f"a pid in {name}"))


class UserApi(Api):
    """Connects as another user, where that is wanted: the cluster goes by peer credentials."""

    uid: int | None = None
    _lock = threading.Lock()

    def _connect(self) -> None:
        if self.uid is None:
            super()._connect()
            return
        with self._lock:
            os.seteuid(self.uid)
            try:
                super()._connect()
            finally:
                os.seteuid(0)


class Live:
    """A state directory, the commands that act on it, and the processes that belong to it.

    Args:
        place: A directory of its own.
        uid: Who runs the cluster; None: whoever runs the test.
    """

    def __init__(self, place: Path, uid: int | None = None) -> None:
        self.root = place / "state"
        self.home = place / "home"
        self.uid = uid
        for path in (self.root, self.home):
            path.mkdir()
        self.home.chmod(0o777)
        if uid is not None:
            for path in (place, self.root, self.home):
                os.chown(path, uid, uid)
        self.layout = find_layout(self.root)
        if uid is not None and self.layout.run != self.root / "run":
            raise ValueError(f"{self.root} is too deep for another user's sockets")
        self.environ = {
            **os.environ,
            "PATH": f"{store_launchers(self.root)}:{os.environ['PATH']}",
            "XCE_DIR": str(self.root),
            "XCE_WAIT_DAEMON": "60",
            "HOME": str(self.home),
        }
        self._apis: list[Api] = []
        self._ups: list[subprocess.Popen[bytes]] = []

    @property
    def has_groups(self) -> bool:
        """Whether its jobs are held together by control groups; only once it is up."""
        return all("cgroup" in host["isolation"] for host in self.hosts())

    # Commands.

    def words_as(self, uid: int | None, words: Iterable[str]) -> list[str]:
        """Return the command line that runs ``words`` as a user; None: whoever runs the test."""
        if uid is None:
            return list(words)
        skip_unless_reachable()
        ids = ["--reuid", str(uid), "--regid", str(uid), "--clear-groups"]
        return ["setpriv", *ids, *words]

    def run(
        self, *words: str, status: int | None = 0, uid: int | None = None, stdin: str = "",
        timeout_s: float = 150,
    ) -> subprocess.CompletedProcess[str]:  # fmt: skip
        """Run a command as a user of the cluster (by default as who runs it)."""
        done = subprocess.run(
            self.words_as(self.uid if uid is None else uid, words),
            env=self.environ,
            cwd=self.home,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if status is not None:
            assert done.returncode == status, (
                f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
            )
        return done

    def xce(self, *words: str, status: int | None = 0) -> str:
        """Run ``xce``; return what it said."""
        done = self.run(sys.executable, "-m", "xce.cli.xce.main", *words, status=status)
        return done.stdout + done.stderr

    def xceadmin(self, *words: str, status: int | None = 0) -> str:
        """Run ``xceadmin``; return what it said."""
        done = self.run("xceadmin", *words, status=status)
        return done.stdout + done.stderr

    def start_up(self) -> subprocess.Popen[bytes]:
        """Run ``xce up`` beside the test."""
        words = [sys.executable, "-m", "xce.cli.xce.main", "up", "--timeout", "60"]
        process = subprocess.Popen(
            self.words_as(self.uid, words),
            env=self.environ,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._ups.append(process)
        return process

    def configure(self, text: str, name: str = "xce.yaml") -> None:
        """Add lines to a configuration file, before the cluster is first up."""
        self.layout.config.mkdir(exist_ok=True)
        path = self.layout.config / name
        path.write_text((path.read_text() if path.exists() else "") + text)
        if self.uid is not None:
            os.chown(self.layout.config, self.uid, self.uid)
            os.chown(path, self.uid, self.uid)

    # Processes.

    def daemons(self) -> dict[str, ProcessId]:
        """Return the daemons that run, by component name."""
        return find_daemons(self.root)

    def shepherds(self) -> dict[str, ProcessId]:
        """Return the shepherds that run, by host."""
        found = {}
        for pid, words in each_command_line(owner_of(self.root)):
            if any("/worker/shepherd/" in word for word in words) and "--runs" in words:
                runs = Path(words[words.index("--runs") + 1])
                process = identify(pid)
                host = runs.parent.name
                if runs.parent.parent == self.layout.hosts and process is not None:
                    # One that waits for the lock of a dying one is younger.
                    rivals = (process, found.get(host, process))
                    found[host] = min(rivals, key=lambda one: (one.started_ticks, one.pid))
        return found

    def victims(self, kind: str) -> dict[str, ProcessId]:
        """Return the processes of one of `KINDS`, by component or host."""
        if kind == "shepherd":
            return self.shepherds()
        return {
            name: process
            for name, process in self.daemons().items()
            if name == kind or (kind == "worker" and name.startswith("worker-"))
        }

    def kill(self, kind: str, number: signal.Signals = signal.SIGKILL) -> list[ProcessId]:
        """Signal all processes of a kind; return which."""
        victims = list(self.victims(kind).values())
        for process in victims:
            send_signal(process, number)
        if number == signal.SIGKILL:
            assert wait_for_end(victims, timeout_s=10) == []
        return victims

    def until_replaced(self, kind: str, dead: Iterable[ProcessId]) -> None:
        """Wait until other processes of this kind run."""
        gone = set(dead)
        until(
            lambda: len(set(self.victims(kind).values()) - gone) >= len(gone),
            f"another {kind} is started",
        )

    def processes(self) -> list[ProcessId]:
        """Return everything whose environment names this state directory, jobs above all."""
        mark = os.fsencode(f"{self.root}/")
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                process = identify(int(entry.name))
                if process is not None and mark in (entry / "environ").read_bytes():
                    found.append(process)
        return found

    def job_processes(self) -> list[ProcessId]:
        """Return what of jobs lives."""
        inside = os.fsencode(f"XCE_JOB_HOST_DIR={self.layout.hosts}/")
        found = []
        for process in self.processes():
            with contextlib.suppress(OSError):
                if inside in Path(f"/proc/{process.pid}/environ").read_bytes():
                    found.append(process)
        return found

    # REST.

    def api(self, *, wait_s: float = 60.0, uid: int | None = None) -> Api:
        """Return a new connection; it retries as the commands do, and is closed at the end."""
        api = UserApi(str(self.layout.api_socket), wait_s=wait_s)
        api.uid = self.uid if uid is None else uid
        self._apis.append(api)
        return api

    def submission(self, command: str, **members: object) -> Row:
        """Return the body of a submission."""
        return {"command": command, "cwd": str(self.home), "env": [], "umask": 0o022, **members}

    def submit(self, command: str, **members: object) -> int:
        """Submit a job; return its id."""
        body = self.submission(command, **members)
        return self.submit_all([body])[0]

    def submit_all(self, bodies: list[Row]) -> list[int]:
        """Submit jobs by one request; return their ids."""
        with self.api() as api:
            answer = api.call("POST", "/jobs", document={"jobs": bodies}, key=make_key())
        assert all("jobid" in result for result in answer["results"]), answer["results"]
        return [int(result["jobid"]) for result in answer["results"]]

    def act(self, action: str, *jobs: int, **members: object) -> list[Row]:
        """Kill, stop, resume or signal jobs."""
        select = {"jobs": [str(job) for job in jobs]} if jobs else {"all": True, "user": "all"}
        with self.api() as api:
            body = {"action": action, "select": select, **members}
            results: list[Row] = api.call("POST", "/jobs/actions", document=body)["results"]
        return results

    def rows(self, *query: tuple[str, str], api: Api | None = None) -> list[Row]:
        """Return all rows of a listing, page after page."""
        own = api or self.api()
        found: list[Row] = []
        cursor = ""
        try:
            while True:
                more = [("cursor", cursor)] if cursor else []
                answer = own.call("GET", "/jobs", [*query, *more])
                found += answer["jobs"]
                cursor = str(answer.get("next") or "")
                if not cursor:
                    return found
        finally:
            if api is None:
                own.close()

    def row(self, job: int, index: int = 0) -> Row:
        """Return a job or an element."""
        query = [("index", str(index))] if index else []
        with self.api() as api:
            found: Row = api.call("GET", f"/jobs/{job}", query)
        return found

    def hosts(self) -> list[Row]:
        """Return the rows of all hosts."""
        with self.api() as api:
            found: list[Row] = api.call("GET", "/hosts")["hosts"]
        return found

    def output(self, job: int, index: int = 0, **query: object) -> bytes:
        """Return a job's output."""
        pairs = [("index", str(index))] if index else []
        pairs += [(name, str(value)) for name, value in query.items()]
        with self.api() as api:
            answer = api.request("GET", f"/jobs/{job}/output", pairs)
        assert answer.status == 200, answer.body
        return answer.body

    def until_stat(self, job: int, *stats: str, patience_s: float = PATIENCE_S) -> Row:
        """Wait until a job is in one of these states; return its row."""
        row: Row = {}

        def look() -> Row | None:
            nonlocal row
            row = self.row(job)
            return row if row["stat"].lower() in stats else None

        try:
            return until(look, f"job {job} {stats}", patience_s=patience_s, pause_s=0.05)
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {row}") from None

    def until_ended(self, job: int, *, patience_s: float = PATIENCE_S) -> Row:
        """Wait until a job has ended; return its row."""
        return self.until_stat(job, "done", "exit", patience_s=patience_s)

    def file(self, name: str) -> str:
        """Return the text of a file in the users' directory; empty: there is none."""
        path = self.home / name
        return path.read_text() if path.exists() else ""

    def lines_of(self, component: str) -> list[Mapping[str, Any]]:
        """Return a daemon's log as objects; what is no JSON is in ``text``."""
        found: list[Mapping[str, Any]] = []
        path = self.layout.log_file(component)
        for line in path.read_text(errors="replace").splitlines() if path.exists() else []:
            try:
                found.append(json.loads(line))
            except ValueError:
                found.append({"text": line})
        return found

    # The end.

    def troubles(self) -> str:
        """Return what the logs say of trouble, for whoever looks at a test that failed."""
        parts = []
        for path in sorted(self.layout.log.glob("*.log")):
            text = path.read_text(errors="replace").splitlines()
            bad = [line for line in text if '"level": "info"' not in line and '"info"' not in line]
            parts += [f"--- {path.name}", *bad[-25:]]
        return "\n".join(parts)

    def close(self) -> None:
        """End everything that belongs to this cluster, by pid."""
        daemons = self.daemons()
        for process in daemons.values():
            send_signal(process, signal.SIGCONT)
        if "apiserver" in daemons and "controller" in daemons:
            with contextlib.suppress(UnreachableError, ProblemError, OSError, AssertionError):
                with self.api(wait_s=2) as api:
                    select = {"all": True, "user": "all"}
                    body = {"action": "kill", "force": True, "select": select}
                    api.call("POST", "/jobs/actions", document=body)
                until(lambda: not self.job_processes(), "jobs end", patience_s=5)
        manager = daemons.pop("node-manager", None)
        end_processes([manager] if manager else [], grace_s=15)
        for _ in range(3):
            end_processes(list(self.daemons().values()), grace_s=3)
            end_processes(list(self.shepherds().values()), grace_s=5)
            left = self.processes()
            for process in left:
                send_signal(process, signal.SIGKILL)
            if not wait_for_end(left, timeout_s=5) and not self.shepherds():
                break
        self._remove_groups()
        for process in self._ups:
            process.kill()
            process.wait()
        for api in self._apis:
            api.close()
        if self.layout.run != self.root / "run":
            shutil.rmtree(self.layout.run, ignore_errors=True)

    def groups(self) -> list[Path]:
        """Return the control groups of this cluster's hosts that exist, without those of jobs."""
        if not IS_ROOT or not self.layout.hosts.exists():
            return []
        lines = Path("/proc/mounts").read_text().splitlines()
        mounts = [line.split()[1] for line in lines if line.split()[2].startswith("cgroup")]
        own = {line.rpartition(":")[2] for line in Path("/proc/self/cgroup").read_text().split()}
        tops = {Path(f"{mount}/{path.strip('/')}") for mount in mounts for path in (*own, "")}
        labels = [f"{host.name}-{_digest(host)}" for host in self.layout.hosts.iterdir()]
        bases = [top / "xce" / label for top in tops for label in labels]
        # Not Path.is_dir, which fails where a directory may not be looked into.
        return [base for base in bases if os.path.isdir(base)]  # noqa: PTH112

    def job_groups(self) -> list[Path]:
        """Return the control groups of jobs."""
        return [
            group for base in self.groups() for group in base.glob("*/") if group.name[0].isdigit()
        ]

    def _remove_groups(self) -> None:
        """Remove control groups that killed shepherds have left; they are empty."""
        for base in self.groups():
            for group in [*base.glob("*/"), base]:
                with contextlib.suppress(OSError):
                    group.rmdir()


def _digest(directory: Path) -> str:
    return hashlib.blake2b(os.fsencode(directory), digest_size=6).hexdigest()


@contextlib.contextmanager
def open_live(uid: int | None = None) -> Iterator[Live]:
    """Yield a cluster in a new directory that every user may enter; all of it is gone afterwards.

    When the test fails, what the logs say of trouble is printed and the directory stays.
    """
    if uid is not None:
        skip_unless_reachable()
    place = Path(tempfile.mkdtemp(prefix="xce-live-"))
    place.chmod(0o755)
    live = Live(place, uid)
    try:
        yield live
    except BaseException:
        print(live.troubles())
        print(f"kept for a look: {place}")
        live.close()
        raise
    live.close()
    shutil.rmtree(place, ignore_errors=True)


def wait_for_ends(live: Live, patience_s: float) -> None:
    """Wait until no job is left that has not ended; say which are, if that takes too long."""
    left: list[Row] = []

    def look() -> bool:
        nonlocal left
        left = live.rows(("user", "all"), ("fields", "jobid,index,count,stat,reason,hosts,ending"))
        return not left

    try:
        until(look, "all jobs end", patience_s=patience_s, pause_s=0.3)
    except AssertionError as error:
        raise AssertionError(f"{error}; left: {left[:10]}") from None
