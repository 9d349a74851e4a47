"""Statements of ``bhist -l`` about attempts that are over: each as it ended."""

import pytest

from xce.cli.lsf.history_long import statements

ROW = {"stat": "DONE", "exit_code": 0, "cpu_s": 9.0, "start_at": 5.0}
KILLED = {"cause": "TERM_OWNER", "cause_text": "TERM_OWNER: job killed by owner"}


def told(*steps, **members):
    row = {**ROW, **members, "steps": [{"at": 1.0, **step} for step in steps]}
    return [text for _, text in statements(row)]


def over(what, **members):
    return {"what": what, "cpu_s": 0.34, "max_mem_mib": 1.0, **members}


@pytest.mark.parametrize(
    ("step", "texts"),
    [
        (over("over", exit_code=7), ["Exited with exit code 7. The CPU time used is 0.3 seconds;"]),
        (over("over", exit_code=0), ["Exited. The CPU time used is 0.3 seconds;"]),
        (
            over("over", exit_code=137, signal=9, **KILLED),
            ["Exited by signal 9. The CPU time used is 0.3 seconds;"],
        ),
        (
            over("exited", exit_code=3, **KILLED),
            [
                "Exited with exit code 3. The CPU time used is 0.3 seconds;",
                "Completed <exit>; TERM_OWNER: job killed by owner;",
            ],
        ),
        (over("done", exit_code=0), ["Done successfully. The CPU time used is 0.3 seconds;"]),
    ],
)
def test_an_attempt_is_told_as_it_ended_and_not_as_the_last_one(step, texts):
    last = over("done", exit_code=0, cpu_s=9.0)
    assert told(step, last) == [*texts, "Done successfully. The CPU time used is 9.0 seconds;"]


def test_a_step_that_says_nothing_of_its_end_is_the_last_one():
    assert told({"what": "done"}) == ["Done successfully. The CPU time used is 9.0 seconds;"]
    (first, _) = told({"what": "exited"}, stat="EXIT", exit_code=4)
    assert first == "Exited with exit code 4. The CPU time used is 9.0 seconds;"
