"""Priorities of daemons that nobody waits for."""

import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import os, sys
from pathlib import Path
from xce.daemon.priority import give_way
before = os.nice(0)
give_way(3, Path(sys.argv[1]))
print(os.nice(0) - before)
"""


def _give_way(autogroup: Path, *, leads_session: bool) -> int:
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(autogroup)],
        capture_output=True,
        check=True,
        text=True,
        start_new_session=leads_session,
    )
    return int(done.stdout)


@pytest.mark.parametrize("leads_session", [True, False])
def test_only_the_leader_of_a_session_lowers_its_group(
    tmp_path: Path, *, leads_session: bool
) -> None:
    group = tmp_path / "autogroup"
    group.write_text("/autogroup-7 nice 0\n")
    assert _give_way(group, leads_session=leads_session) == 3
    assert group.read_text().lstrip("-").isdigit() == leads_session


def test_a_kernel_without_groups_is_no_fault(tmp_path: Path) -> None:
    assert _give_way(tmp_path / "none" / "autogroup", leads_session=True) == 3
