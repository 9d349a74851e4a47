"""Starting programs beside a job: never where they, or who starts them, would stand still."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from xce.worker.shepherd.attempts import Attempt
from xce.worker.shepherd.cgroups import Groups
from xce.worker.shepherd.rundir import RunDirectories
from xce.worker.shepherd.spawn import Ids
from xce.worker.shepherd.starting import Starter
from xce.worker.shepherd.terminal import Terminals


class Rig:
    """A starter with control groups that are plain files."""

    def __init__(self, root: Path) -> None:
        (root / "g" / "1.0.1").mkdir(parents=True)
        self.frozen = root / "g" / "1.0.1" / "cgroup.freeze"
        self.frozen.write_text("1")
        self.members = root / "g" / "1.0.1" / "cgroup.procs"
        self.home = root / "cgroup.procs"
        for file in (self.members, self.home):
            file.touch()
        groups = Groups.__new__(Groups)
        groups.base, groups.memory_v1, groups._home = str(root / "g"), "", str(self.home)
        self.null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        runs = RunDirectories(str(root), str(root))
        self.starter = Starter(runs, groups, Terminals(), boot="b", null=self.null)
        ids = Ids(os.geteuid(), os.getegid(), tuple(os.getgroups()))
        self.attempt = Attempt((1, 0, 1), str(root), ids=ids, note="", mark="m")

    def run(self, argument: str = "7") -> int:
        argv = ["/bin/sh", "-c", 'exit "$1"', "sh", argument]
        pid = self.starter.spawn_beside(self.attempt, argv, {}, [self.null] * 3)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    one = Rig(tmp_path)
    yield one
    os.close(one.null)


@pytest.mark.parametrize("by_lease", [False, True])
def test_nothing_is_started_in_an_attempt_that_stands_still(rig: Rig, by_lease: bool) -> None:
    rig.attempt.note_still(1, still=True, by_lease=by_lease)
    with pytest.raises(OSError, match="stands still"):
        rig.run()
    assert (rig.members.read_text(), rig.home.read_text()) == ("", "0")
    assert rig.frozen.read_text() == "1"


def test_a_group_in_which_all_was_killed_while_it_was_frozen_is_thawed_first(rig: Rig) -> None:
    assert rig.run() == 7
    assert rig.frozen.read_text()[0] == "0"
    assert (rig.members.read_text(), rig.home.read_text()) == ("0", "0")


def test_what_cannot_be_run_at_all_is_an_error_of_that_program_only(rig: Rig) -> None:
    with pytest.raises(OSError, match="null"):
        rig.run("7\0")
    assert rig.home.read_text() == "0"
    assert rig.run() == 7
