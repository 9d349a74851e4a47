"""The ranks of a job as its processes find them."""

import pytest

from xce.client.ranks import Rank, RankFileError, hosts_of, load_ranks, rank_environment

TEXT = "0 h1 0 router 0\n1 h2 0 decode 0\n2 h1 1 decode 1\n"


@pytest.fixture
def environ(tmp_path):
    (tmp_path / "ranks").write_text(TEXT)
    return {"XCE_JOBID": "1", "XCE_RANKFILE": str(tmp_path / "ranks"), "A": "1"}


def test_ranks_are_read_in_their_order(environ):
    ranks = load_ranks(environ)
    assert ranks[2] == Rank(2, "h1", 1, "decode", 1)
    assert hosts_of(ranks) == ["h1", "h2"]


def test_a_job_with_one_task_has_no_file():
    assert load_ranks({"XCE_JOBID": "1", "HOSTNAME": "h1"}) == [Rank(0, "h1", 0, "", 0)]


@pytest.mark.parametrize("text", ["0 h1\n", "x h1 0 - 0\n"])
def test_a_line_that_is_no_rank_is_said_so(environ, tmp_path, text):
    (tmp_path / "ranks").write_text(text)
    with pytest.raises(RankFileError):
        load_ranks(environ)


def test_outside_a_job_there_are_none():
    with pytest.raises(RankFileError, match="not within a job"):
        load_ranks({})


def test_each_task_has_what_tells_it_apart_and_the_gpu_that_is_its_own(environ):
    ranks = load_ranks(environ)
    given = {**environ, "CUDA_VISIBLE_DEVICES": "a,b", "CUDA_VISIBLE_DEVICES1": "b"}
    found = rank_environment(ranks[2], ranks, given)
    assert (found["XCE_RANK"], found["XCE_NTASKS"], found["A"]) == ("2", "3", "1")
    assert (found["XCE_ROLE"], found["XCE_ROLE_INDEX"]) == ("decode", "1")
    assert (found["XCE_HOST_NTASKS"], found["XCE_HOST_TASK_INDEX"]) == ("2", "1")
    assert found["CUDA_VISIBLE_DEVICES"] == "b"
