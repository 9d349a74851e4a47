"""The node manager: starts the daemons of this machine, watches them, starts them again.

Rule 1: a daemon that runs already, started by an earlier node manager, is watched, not doubled.
Rule 2: a daemon that ends is started again, at once the first time, then with growing pauses.
Rule 3: when the node manager is killed its daemons go on; when it is told to end it ends them, in
order. Jobs are the shepherds' children and are never touched.
"""

import argparse
import ctypes
import fcntl
import json
import logging
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from xce.daemon.components import STOP_ORDER, Component, command_line, local_hosts, plan_components
from xce.daemon.config_directory import load_config
from xce.daemon.logs import open_log
from xce.daemon.paths import Layout, StateDirectoryError, open_layout
from xce.daemon.processes import (
    ProcessId,
    boot_id,
    end_processes,
    find_processes,
    identify,
    is_listened_at,
    open_pidfd,
)
from xce.model.errors import ConfigError

ALREADY_RUNS: Final = 75
"""Exit status when another node manager holds the state directory."""
PAUSE_S_MAX: Final = 30.0
STEADY_S: Final = 20.0
"""After so long a run a daemon's earlier failures are forgotten."""
GRACE_S: Final = 10.0
LOOK_S: Final = 2.0
"""Between two looks at whether sockets are still where clients look for them."""
LOG_BYTES_MAX: Final = 64 * 1024 * 1024
_PR_SET_CHILD_SUBREAPER: Final = 36


class Watched:
    """A daemon as it runs or waits to be started."""

    def __init__(self, component: Component) -> None:
        self.component = component
        self.process: ProcessId | None = None
        self.pidfd: int | None = None
        self.since_s = 0.0
        """Monotonic second of its start or end."""
        self.failures = 0
        self.restarts = 0
        self.last_exit = ""
        self.due_s = 0.0


class NodeManager:
    """Runs until SIGTERM or SIGINT."""

    def __init__(self, layout: Layout, components: list[Component], log: logging.Logger) -> None:
        self._layout = layout
        self._watched = [Watched(component) for component in components]
        self._log = log
        self._stopping = False
        self._sockets = {
            "controller": layout.controller_socket,
            "apiserver": layout.api_socket,
        }
        self._relocked: int | None = None

    def run(self) -> None:
        """Start what does not run, keep it running, and end it when told."""
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        for watched in self._watched:
            self._adopt(watched)
        self._store()
        while not self._stopping:
            self._start_due()
            self._wait(reader)
            self._reap()
            self._look_for_sockets()
        self._end_all()

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def _adopt(self, watched: Watched) -> None:
        """Watch a daemon that an earlier node manager started."""
        running = find_processes(watched.component.arguments)
        if running and (pidfd := open_pidfd(running[0])) is not None:
            watched.process, watched.pidfd = running[0], pidfd
            watched.since_s = time.monotonic()
            self._log.info("daemon-adopted", extra=_keys(watched))

    def _start_due(self) -> None:
        """Start every daemon whose time has come."""
        now_s = time.monotonic()
        started = False
        for watched in self._watched:
            if watched.process is None and watched.due_s <= now_s:
                self._start(watched)
                started = True
        if started:
            self._store()

    def _start(self, watched: Watched) -> None:
        log_file = self._layout.log_file(watched.component.name)
        _rotate(log_file)
        mode = 0o644 if os.geteuid() == 0 else 0o600
        log = _open_log_file(log_file, mode)
        try:
            child = subprocess.Popen(
                command_line(watched.component.arguments),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
                env={**_clean_environ(), "XCE_DIR": str(self._layout.root)},
            )
        finally:
            os.close(log)
        child.returncode = 0  # reaped here by pid, never by the subprocess module
        watched.process = identify(child.pid) or ProcessId(child.pid, 0)
        watched.pidfd = os.pidfd_open(child.pid)
        watched.since_s = time.monotonic()
        self._log.info("daemon-started", extra=_keys(watched))

    def _wait(self, reader: int) -> None:
        """Sleep until a daemon ends, a signal comes, a start is due, or a minute has gone."""
        poll = select.poll()
        poll.register(reader, select.POLLIN)
        for watched in self._watched:
            if watched.pidfd is not None:
                poll.register(watched.pidfd, select.POLLIN)
        due_s = [watched.due_s for watched in self._watched if watched.process is None]
        left_s = min([LOOK_S, *(moment - time.monotonic() for moment in due_s)])
        poll.poll(max(0.0, left_s) * 1000)
        try:
            while os.read(reader, 4096):
                pass
        except BlockingIOError:
            pass
        for watched in self._watched:
            _rotate_live(self._layout.log_file(watched.component.name))

    def _look_for_sockets(self) -> None:
        """Restart what listens where nobody can find it: ``run`` was emptied under the cluster."""
        lost = []
        for watched in self._watched:
            path = self._sockets.get(watched.component.name)
            if path is None or watched.process is None:
                continue
            if not path.exists() and is_listened_at(path):
                lost.append(watched)
        if not lost or self._stopping:
            return
        self._make_run_again()
        for watched in lost:
            assert watched.process is not None
            self._log.warning("socket-vanished", extra=_keys(watched))
            watched.failures = 0
        self._end_group([watched.process for watched in lost if watched.process is not None])
        self._store()

    def _make_run_again(self) -> None:
        """Make the directories that are gone, and hold the lock that lay there."""
        try:
            open_layout(self._layout.root)
            if not self._layout.node_manager_lock.exists():
                self._relocked = lock_state_dir(self._layout)
        except (StateDirectoryError, OSError) as error:
            self._log.warning("run-not-made", extra={"why": str(error)})

    def _reap(self) -> None:
        """Note which daemons have ended; also collect orphans, since this is their subreaper."""
        exits: dict[int, int] = {}
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            exits[pid] = status
        ended = False
        for watched in self._watched:
            if watched.process is not None and identify(watched.process.pid) != watched.process:
                self._note_end(watched, exits.get(watched.process.pid))
                ended = True
        if ended:
            self._store()

    def _note_end(self, watched: Watched, status: int | None) -> None:
        assert watched.pidfd is not None
        os.close(watched.pidfd)
        now_s = time.monotonic()
        if now_s - watched.since_s >= STEADY_S:
            watched.failures = 0
        watched.last_exit = _render_exit(status)
        level = logging.INFO if self._stopping else logging.WARNING
        self._log.log(level, "daemon-ended", extra={**_keys(watched), "exit": watched.last_exit})
        watched.due_s = now_s + restart_pause_s(watched.failures)
        watched.process = watched.pidfd = None
        watched.failures += 1
        watched.restarts += 1
        watched.since_s = now_s

    def _end_all(self) -> None:
        """End the daemons, group after group."""
        self._log.info("node-manager-stopping")
        self._store()
        for kinds in STOP_ORDER:
            group = [
                watched.process
                for watched in self._watched
                if watched.process is not None and watched.component.kind in kinds
            ]
            self._end_group(group)
        self._layout.node_manager_file.unlink(missing_ok=True)

    def _end_group(self, group: list[ProcessId]) -> None:
        end_processes(group, grace_s=GRACE_S)
        self._reap()

    def _store(self) -> None:
        """Write down what runs, for people and for ``xce status``."""
        now_s = time.monotonic()
        content: dict[str, Any] = {
            "pid": os.getpid(),
            "boot": boot_id(),
            "python": sys.executable,
            "stopping": self._stopping,
            "components": [
                {
                    "name": watched.component.name,
                    "pid": watched.process.pid if watched.process else None,
                    "started_ticks": watched.process.started_ticks if watched.process else None,
                    "running": watched.process is not None,
                    "failures": watched.failures,
                    "restarts": watched.restarts,
                    "last_exit": watched.last_exit,
                    "since_at": round(time.time() - (now_s - watched.since_s), 3),
                }
                for watched in self._watched
            ],
        }
        path = self._layout.node_manager_file
        aside = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            aside.write_text(json.dumps(content, indent=1))
            aside.replace(path)
        except OSError as error:  # a full disk must not end whoever keeps the rest alive
            self._log.warning("state-not-stored", extra={"why": str(error)})


def restart_pause_s(failures: int) -> float:
    """Return how long to wait before the next start after so many failures in a row."""
    return 0.0 if failures == 0 else min(PAUSE_S_MAX, 0.25 * 2.0 ** min(failures, 10))


def _keys(watched: Watched) -> dict[str, object]:
    pid = watched.process.pid if watched.process else None
    return {"daemon": watched.component.name, "pid": pid, "restarts": watched.restarts}


def _render_exit(status: int | None) -> str:
    """Return how a daemon ended, for people."""
    if status is None:
        return "ended (it was no child of this node manager)"
    code = os.waitstatus_to_exitcode(status)
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _clean_environ() -> dict[str, str]:
    """Return the environment without what marks a job: `xce up` may be run inside one."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LSB_", "LS_", "XCE_"))
    }


def _open_log_file(path: Path, mode: int) -> int:
    """Return a descriptor that appends to a log; on a full disk, one that forgets."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, mode)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)


def _rotate(path: Path) -> None:
    """Begin a new log when the old one has grown large."""
    try:
        if path.stat().st_size > LOG_BYTES_MAX // 2:
            path.replace(path.with_suffix(".log.1"))
    except OSError:
        pass  # there is none yet, or the disk is full


def _rotate_live(path: Path) -> None:
    """Cut a log that a daemon is writing: it appends, so it goes on at the new end."""
    try:
        if path.stat().st_size > LOG_BYTES_MAX:
            with path.open("rb+") as log, path.with_suffix(".log.1").open("wb") as old:
                while chunk := log.read(1 << 20):
                    old.write(chunk)
                log.truncate(0)
    except OSError:
        pass  # there is none yet, or the disk is full


def lock_state_dir(layout: Layout) -> int | None:
    """Return a descriptor that holds the state directory, or None when another has it."""
    lock = os.open(layout.node_manager_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def run_node_manager(state_dir: Path, only: Collection[str] = ()) -> int:
    """Run the node manager of a state directory until it is told to end; return its status.

    Args:
        state_dir: The state directory.
        only: Names or kinds of the daemons that run on this machine; empty: all.
    """
    log = open_log("node-manager")
    try:
        layout = open_layout(state_dir)
        config = load_config(layout.config)
        components = plan_components(
            layout.root, local_hosts(config), only, new_privileges=config.new_privileges
        )
    except (StateDirectoryError, ConfigError) as error:
        log.error("start-refused", extra={"why": str(error)})  # noqa: TRY400 - no trace needed
        return 1
    lock = lock_state_dir(layout)
    if lock is None:
        log.error("state-directory-taken", extra={"why": "another node manager runs for it"})
        return ALREADY_RUNS
    os.umask(0o022 if os.geteuid() == 0 else 0o077)
    # Where pid 1 does not reap, shepherds that outlive their worker are reaped here.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    NodeManager(layout, components, log).run()
    os.close(lock)
    return 0


def main() -> int:
    """Run the node manager as a process of its own."""
    parser = argparse.ArgumentParser(prog="xce node-manager", description=__doc__)
    parser.add_argument("--dir", required=True, help="the state directory")
    parser.add_argument("--only", default="", help="daemons of this machine, with commas")
    options = parser.parse_args()
    return run_node_manager(Path(options.dir), tuple(filter(None, options.only.split(","))))


if __name__ == "__main__":
    sys.exit(main())
