"""Remote tasks on a host, with real processes and without a herd around them."""

import os
import select
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from xce.worker.shepherd import rundir
from xce.worker.shepherd.attempts import BEGUN_MAX, Attempt, restore
from xce.worker.shepherd.rundir import RunDirectories
from xce.worker.shepherd.spawn import Ids
from xce.worker.shepherd.starting import Starter
from xce.worker.shepherd.tasks import BEGUN, OVER, REFUSED, UNKNOWN, Tasks
from xce.worker.shepherd.terminal import Terminals

KEY = (1, 0, 1)


def nothing(*_: object) -> None:
    """Stand for what a herd does around tasks."""


@pytest.fixture
def tasks() -> Iterator[Tasks]:
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    reach = SimpleNamespace(add_leader=nothing, drop_leader=nothing)
    starter = Starter(
        RunDirectories("/nowhere", "/nowhere"), None, Terminals(), boot="b", null=null
    )
    own = Tasks(reach, starter, null)
    ids = Ids(os.geteuid(), os.getegid(), tuple(os.getgroups()))
    own.parts[KEY] = Attempt(KEY, "/nowhere", ids=ids, note="", mark="m")
    yield own
    own.drop(KEY)
    os.close(null)


def ask(tasks: Tasks, *fields: Any) -> list[Any]:
    tasks.take(0, 7, list(KEY), list(fields))
    return tasks.look(0)


def start(tasks: Tasks, command: str) -> int:
    asked = {
        "argv": ["/bin/sh", "-c", command], "env": {}, "cwd": "/", "umask": 0o22,
        "has_input": False,
    }  # fmt: skip
    ((kind, number, fault, _, pid, *_),) = ask(tasks, "start", "t", asked)
    assert (kind, number, fault) == ("task", 7, 0)
    return pid


def test_nothing_is_started_in_a_part_that_stands_still_before_it_goes_on(tasks: Tasks) -> None:
    asked = {
        "argv": ["/bin/true"], "env": {}, "cwd": "/", "umask": 0o22, "has_input": False,
    }  # fmt: skip
    part = tasks.parts[KEY]
    for by_lease in (False, True):
        part.note_still(1, still=True, by_lease=by_lease)
    assert ask(tasks, "start", "t", asked) == []
    part.note_still(2, still=False)
    assert tasks.look(0) == [], "its lease is over still"
    part.note_still(3, still=False, by_lease=True)
    ((kind, number, fault, *_),) = tasks.look(0)
    assert (kind, number, fault) == ("task", 7, 0)
    assert tasks.look(0) == []
    os.wait()


def test_a_start_that_waits_is_dropped_with_whoever_asked(tasks: Tasks) -> None:
    part = tasks.parts[KEY]
    part.note_still(1, still=True)
    assert ask(tasks, "start", "t", {"argv": ["/bin/false"]}) == []
    tasks.leave_worker()
    part.note_still(2, still=False)
    assert tasks.look(0) == []


def test_a_task_says_what_it_wrote_and_how_it_ended_and_is_forgotten_then(tasks: Tasks) -> None:
    pid = start(tasks, "echo said; exit 3")
    assert ask(tasks, "read", "t", 0, 0, 0, 0)[0][4] == pid
    _, status = os.waitpid(pid, 0)
    tasks.reap(pid, status)
    assert ask(tasks, "read", "t", 0, 0, 99, 0) == [
        ["task", 7, 0, "", pid, 0, "c2FpZAo=", 0, "", 0, True, 3]
    ]
    ask(tasks, "end", "t")
    assert ask(tasks, "read", "t", 0, 0, 99, 0)[0][2:4] == [OVER, UNKNOWN]


def test_pipes_of_a_task_that_end_while_a_child_has_copies_are_watched_no_more(
    tasks: Tasks,
) -> None:
    # The kernel wakes who has started a program before that has closed the copies it has of all
    # descriptors; on a busy machine that takes as long as the machine is busy.
    pid = start(tasks, "true")
    (task,) = tasks._all.values()
    copies = [os.dup(task.out.reading), os.dup(task.err.reading)]
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert select.select([tasks.epoll], [], [], 10)[0]
        for _ in range(3):
            tasks.serve()
        assert (task.out.reading, task.err.reading) == (-1, -1)
        assert tasks.epoll.poll(0) == []
        _, status = os.waitpid(pid, 0)
        tasks.reap(pid, status)
        assert ask(tasks, "read", "t", 0, 0, 99, 0)[0][-2:] == [True, 0]
    finally:
        for copy in copies:
            os.close(copy)


def test_what_a_job_says_that_cannot_be_is_refused_and_harms_nobody(tasks: Tasks) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    asked = {"argv": [], "env": {}, "cwd": "/\0", "umask": 0o22, "has_input": True}
    ((_, _, fault, text, *_),) = ask(tasks, "start", "u", asked)
    assert (fault, "NUL character" in text) == (REFUSED, True)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    pid = start(tasks, "exec sleep 60")
    for number in (1000, -5, 1 << 40, 9):
        assert ask(tasks, "signal", "t", number)[0][2] == 0
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -9


@pytest.fixture
def part(tasks: Tasks, tmp_path: Path) -> Attempt:
    """Return a part with a run directory."""
    part = tasks.parts[KEY]
    part.path = str(tmp_path)
    intent = {
        "key": list(KEY), "mark": "m", "uid": os.geteuid(), "gid": os.getegid(), "groups": [],
        "note": "", "limit_kib": 0, "grouped": False, "at": 1, "report": "", "detail": "",
        "part": True, "boot": "b",
    }  # fmt: skip
    os.close(rundir.store_intent(part.path, intent))
    return part


def remembered(part: Attempt) -> Attempt:
    """Return a part as the next shepherd finds it."""
    stored = rundir.load(part.path, KEY, wall_us=1)
    assert stored is not None
    return restore(stored, part.path, boot="b", now_us=1)


def run_and_forget(tasks: Tasks, command: str) -> None:
    pid = start(tasks, command)
    _, status = os.waitpid(pid, 0)
    tasks.reap(pid, status)
    ask(tasks, "end", "t")


def again(tasks: Tasks) -> tuple[int, str]:
    asked = {"argv": ["true"], "env": {}, "cwd": "/", "umask": 0o22, "has_input": False}
    ((_, _, fault, text, *_),) = ask(tasks, "start", "t", asked)
    return fault, text


def test_a_task_that_is_over_and_forgotten_is_not_started_again_by_a_late_order(
    tasks: Tasks, part: Attempt
) -> None:
    run_and_forget(tasks, "true")
    assert again(tasks) == (OVER, BEGUN)
    # Nor by the next shepherd.
    tasks.drop(KEY)
    tasks.parts[KEY] = remembered(part)
    assert again(tasks) == (OVER, BEGUN)


def test_a_task_that_was_ended_before_the_order_to_start_it_came_is_not_started(
    tasks: Tasks, part: Attempt
) -> None:
    assert ask(tasks, "end", "t")[0][2] == 0
    assert again(tasks) == (OVER, BEGUN)
    assert list(remembered(part).begun) == ["t"]


def test_a_task_that_could_not_be_started_may_be_tried_again(tasks: Tasks, part: Attempt) -> None:
    asked = {"argv": ["true"], "env": {}, "cwd": "/absent", "umask": 0o22, "has_input": False}
    assert ask(tasks, "start", "t", asked)[0][2] == REFUSED
    run_and_forget(tasks, "true")
    assert again(tasks) == (OVER, BEGUN)


def test_names_of_so_many_tasks_are_remembered_and_no_more(tasks: Tasks, part: Attempt) -> None:
    for number in range(BEGUN_MAX + 2):
        part.note_task(str(number))
    assert len(part.begun) == BEGUN_MAX
    assert next(iter(part.begun)) == "2"


def test_a_task_that_was_ended_before_its_part_was_there_is_not_started(
    tasks: Tasks, part: Attempt
) -> None:
    del tasks.parts[KEY]
    assert ask(tasks, "end", "t")[0][2] == 0
    tasks.parts[KEY] = part
    assert again(tasks) == (OVER, BEGUN)
