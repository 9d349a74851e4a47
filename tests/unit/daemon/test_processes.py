import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from xce.daemon.components import find_daemons, plan_components
from xce.daemon.node_manager import PAUSE_S_MAX, restart_pause_s
from xce.daemon.processes import (
    ProcessId,
    end_processes,
    find_processes,
    identify,
    is_alive,
    is_listened_at,
    send_signal,
    wait_for_end,
)

READY = "import signal, sys; {0}; print('ready', flush=True); sys.stdin.read()"


@pytest.fixture
def start() -> Iterator[object]:
    children = []

    def run(*words: str, prepare: str = "0") -> subprocess.Popen[str]:
        line = [sys.executable, "-I", "-c", READY.format(prepare), *words]
        child = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        return child

    yield run
    for child in children:
        child.kill()
        child.communicate()


def test_a_process_is_told_from_a_later_one_with_its_number(start) -> None:
    child = start()
    process = identify(child.pid)
    assert process is not None
    assert is_alive(process)
    other = ProcessId(process.pid, process.started_ticks + 1)
    assert not is_alive(other)
    send_signal(other, signal.SIGKILL)
    assert is_alive(process)
    child.kill()
    child.wait()
    assert not is_alive(process)
    send_signal(process, signal.SIGTERM)  # nothing happens


def test_a_zombie_has_ended(start) -> None:
    child = start()
    process = identify(child.pid)
    assert process is not None
    child.kill()
    assert wait_for_end([process], timeout_s=5) == []
    assert identify(child.pid) is None


def test_processes_are_found_by_the_end_of_their_command_line(start) -> None:
    mark = f"mark-{os.getpid()}-{time.monotonic_ns()}"
    first, second = start("x", mark), start("x", mark)
    start(mark, "x")
    assert [process.pid for process in find_processes(["x", mark])] == [first.pid, second.pid]


def test_a_forked_child_is_not_taken_for_its_parent_even_when_that_is_gone(start) -> None:
    mark = f"mark-{os.getpid()}-{time.monotonic_ns()}"
    parent = start(mark, prepare="import os; os.fork() or os._exit(len(sys.stdin.read()))")
    (pid,) = Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()
    child = identify(int(pid))
    assert child is not None
    assert mark.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    assert [process.pid for process in find_processes([mark])] == [parent.pid]
    parent.kill()
    parent.wait()
    assert is_alive(child)
    assert find_processes([mark]) == []


def test_one_that_ignores_term_is_killed_after_the_grace(start) -> None:
    child = start(prepare="signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    process = identify(child.pid)
    assert process is not None
    end_processes([process], grace_s=0.1)
    assert child.wait() == -signal.SIGKILL


def test_the_daemons_of_a_state_directory_are_found_by_name(start, tmp_path: Path) -> None:
    plan = plan_components(tmp_path, ["h1", "h-2"])
    children = {component.name: start(*component.arguments) for component in plan}
    start(*plan_components(tmp_path / "other", [])[0].arguments)
    found = find_daemons(tmp_path)
    assert {name: process.pid for name, process in found.items()} == {
        name: child.pid for name, child in children.items()
    }
    assert {component.kind for component in plan if component.name == "worker-h-2"} == {"worker"}


def test_the_first_restart_is_at_once_and_later_ones_pause_longer() -> None:
    pauses = [restart_pause_s(failures) for failures in range(40)]
    assert pauses[0] == 0
    assert pauses == sorted(pauses)
    assert pauses[-1] == PAUSE_S_MAX


def test_a_listening_socket_is_known_by_its_name_also_without_its_file() -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "a socket"
        assert not is_listened_at(path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            listener.bind(str(path))
            listener.listen()
            assert is_listened_at(path)
            path.unlink()
            assert is_listened_at(path)
        assert not is_listened_at(path)
