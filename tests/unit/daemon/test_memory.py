import logging
import os

from xce.control.controller import Input
from xce.control.desk import Desk
from xce.daemon.memory import SHARE, MemoryGuard, present_mib, used_mib
from xce.model.command import SubmitJobs
from xce.testing.builders import ALICE, cluster, submission


def guarded() -> tuple[Desk, MemoryGuard]:
    desk = Desk(cluster())
    return desk, MemoryGuard(desk, logging.getLogger("test"))


def test_above_its_limit_a_controller_takes_no_new_jobs_until_it_is_well_below() -> None:
    desk, guard = guarded()
    told = []
    for now_mib in (500, 999, 1_000, 990, 951, 949, 999, 1_001):
        guard.look(1_000, now_mib)
        told.append(bool(desk.overload))
    assert told == [False, False, True, True, True, False, False, True]
    assert "takes no new jobs from 1000 MiB on" in desk.overload
    desk.give(Input(SubmitJobs(ALICE, (submission(),)), ticket=1))
    assert len(desk.take_refused()) == 1


def test_without_a_limit_it_is_a_part_of_what_there_is() -> None:
    desk, guard = guarded()
    guard.look(0, present_mib() // SHARE - 1)
    assert not desk.overload
    guard.look(0, present_mib() // SHARE)
    assert desk.overload


def test_what_is_measured_is_true() -> None:
    before = used_mib()
    block = bytearray(os.urandom(1024)) * 200_000
    assert used_mib() > before + 150
    assert len(block) < present_mib() * 1024 * 1024
