"""``brun``: what it sends, and what it says."""

import pytest
from fake_api import FakeApi, run_command

from xce.cli.lsf import brun

ROUTE = "POST /jobs/12/run"
DONE = {"seq": 1, "jobid": 12, "index": 0}


@pytest.mark.parametrize(
    ("words", "bodies"),
    [
        (["-m", "h1 h2", "12"], [{"hosts": ["h1", "h2"], "firm": False}]),
        (["-f", "-m", "h1", "12[4]"], [{"hosts": ["h1"], "firm": True, "index": 4}]),
        (["-m", "h1", "12[1-2,5]"],
         [{"hosts": ["h1"], "firm": False, "index": index} for index in (1, 2, 5)]),
    ],
)  # fmt: skip
def test_each_element_is_sent_by_itself(words, bodies):
    with FakeApi({ROUTE: DONE}) as fake:
        status, out, err = run_command(brun, words, api=fake)
        assert [request.json() for request in fake.requests] == bodies
    assert (status, err) == (0, "")
    assert out.splitlines()[0].endswith("> is being forced to run")


@pytest.mark.parametrize(
    "words", [["12"], ["-m", "h1"], ["-m", "", "12"], ["-m", "h1", "-b", "12"], ["-c", "12"]]
)
def test_what_is_missing_or_refused_is_said_with_the_usage(words):
    with FakeApi({}) as fake:
        status, out, err = run_command(brun, words, api=fake)
    assert (status, out) == (255, "")
    assert "Usage: brun" in err


def test_too_many_elements_are_refused_before_anything_is_sent():
    with FakeApi({}) as fake:
        status, _, err = run_command(brun, ["-m", "h1", "12[1-5000]"], api=fake)
        assert not fake.requests
    assert (status, err) == (255, "Job array index error: name at most 1000 elements.\n")
