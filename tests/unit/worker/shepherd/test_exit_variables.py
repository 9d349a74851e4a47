"""The variables that say to post hooks how the job ended, as LSF's documentation has them."""

import pytest

from xce.model.job import EndCause
from xce.worker.shepherd.exit_variables import exit_variables
from xce.worker.shepherd.hooks import CAUSE_PRE_EXEC, Result


def told(main, **plan):
    return exit_variables(plan, main)


def test_a_job_that_ends_by_itself_has_its_status_and_no_reason():
    assert told(Result(3)) == {"LSB_JOBEXIT_STAT": "768"}
    assert told(Result(130)) == {"LSB_JOBEXIT_STAT": "33280"}
    assert told(Result(137, 9)) == {"LSB_JOBEXIT_STAT": "9"}


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (14, "SIGNAL -14 SIG_TERM_USER"),
        (9, "SIGNAL -14 SIG_TERM_USER"),
        (11, "SIGNAL -23 SIG_KILL_REQUEUE"),
        (13, "SIGNAL -1 SIG_CHKPNT"),
        (5, "SIGNAL 12 USR2"),
    ],
)
def test_what_the_cluster_ended_says_why(cause, reason):
    assert told(Result(140, 12, cause))["LSB_JOBEXIT_INFO"] == reason


def test_a_signal_of_the_user_counts_where_it_ended_the_job():
    assert told(Result(130, sent=2))["LSB_JOBEXIT_INFO"] == "SIGNAL 2 INT"
    assert told(Result(143, 15, sent=15))["LSB_JOBEXIT_INFO"] == "SIGNAL 15 TERM"
    assert "LSB_JOBEXIT_INFO" not in told(Result(3, sent=2))
    assert "LSB_JOBEXIT_INFO" not in told(Result(137, 9, sent=10))


@pytest.mark.parametrize(
    ("main", "is_requeued"),
    [
        (Result(7), True),
        (Result(8), False),
        (Result(7, cause=5), False),
        (Result(130, cause=10), True),
        (Result(1, cause=CAUSE_PRE_EXEC), True),
        (Result(99, cause=CAUSE_PRE_EXEC), False),
    ],
)
def test_a_job_that_waits_again_is_told(main, is_requeued):
    found = told(main, requeue_codes=[7])
    assert found.get("LSB_JOBPEND") == ("Y" if is_requeued else None)


def test_the_jobs_shell_leads_its_group():
    found = told(Result(0, pid=77))
    assert (found["LSB_JOBPIDS"], found["LSB_JOBPGIDS"]) == ("77", "77")


def test_its_numbers_are_those_of_the_causes():
    killed = (EndCause.FORCE_OWNER, EndCause.FORCE_ADMIN, EndCause.OWNER, EndCause.ADMIN)
    requeued = (EndCause.REQUEUE_OWNER, EndCause.REQUEUE_ADMIN)
    says = {cause: told(Result(140, 12, cause)).get("LSB_JOBEXIT_INFO") for cause in EndCause}
    owned = {cause for cause, text in says.items() if text == "SIGNAL -14 SIG_TERM_USER"}
    anew = {cause for cause, text in says.items() if text == "SIGNAL -23 SIG_KILL_REQUEUE"}
    assert (owned, anew) == (set(killed), set(requeued))
