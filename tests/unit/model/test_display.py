"""STAT words, end causes and instants as people see them."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xce.model.display import (
    FINISHED,
    UNFINISHED,
    end_cause_keyword,
    end_cause_text,
    render_utc,
    stat_word,
)
from xce.model.job import EndCause, Outcome, Phase


@pytest.mark.parametrize(
    ("phase", "outcome", "held", "suspended", "by_system", "word"),
    [
        (Phase.PENDING, Outcome.NONE, False, False, False, "PEND"),
        (Phase.PENDING, Outcome.NONE, True, False, False, "PSUSP"),
        (Phase.STARTING, Outcome.NONE, False, False, False, "RUN"),
        (Phase.RUNNING, Outcome.NONE, False, False, False, "RUN"),
        (Phase.RUNNING, Outcome.NONE, False, True, False, "USUSP"),
        (Phase.RUNNING, Outcome.NONE, False, True, True, "SSUSP"),
        (Phase.ENDED, Outcome.DONE, False, False, False, "DONE"),
        (Phase.ENDED, Outcome.EXIT, False, False, False, "EXIT"),
    ],
)
def test_stat_is_one_word(phase, outcome, held, suspended, by_system, word):
    found = stat_word(phase, outcome, held=held, suspended=suspended, by_system=by_system)
    assert found == word
    assert word in UNFINISHED + FINISHED


def test_a_job_that_ended_by_itself_has_no_cause():
    assert end_cause_keyword(EndCause.NONE) == ""
    assert end_cause_text(EndCause.NONE) == ""


def test_a_cause_is_a_keyword_and_a_text():
    assert end_cause_keyword(EndCause.OWNER) == "TERM_OWNER"
    assert end_cause_text(EndCause.OWNER) == "TERM_OWNER: job killed by owner"


@given(st.integers(0, 4_000_000_000_000_000))
def test_instants_are_those_of_the_calendar(at_us):
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    moment = epoch + dt.timedelta(microseconds=at_us)
    assert render_utc(at_us) == moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
