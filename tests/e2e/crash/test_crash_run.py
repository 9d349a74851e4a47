"""Daemons are killed at random moments while clients submit and jobs run: nothing is lost."""

import pytest
from crash_run import Plan, crash_run
from live import open_live
from other_user import IS_ROOT, NOBODY


def test_what_was_acknowledged_ends_once_whatever_is_killed() -> None:
    with open_live() as live:
        print(crash_run(live, Plan(seed=1, elements=1500)))


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(101, 111))
def test_ten_runs_of_5000_jobs(seed: int) -> None:
    # Every other run without control groups and other user ids.
    uid = NOBODY if IS_ROOT and seed % 2 else None
    with open_live(uid) as live:
        print(crash_run(live, Plan(seed=seed, elements=5000, patience_s=600)))
