import pytest
from job_rows import utc  # noqa: F401 - a fixture

from xce.cli.lsf.advice_text import render_advice, render_plan, when

NOW = 1_700_000_000
pytestmark = pytest.mark.usefixtures("utc")


def advice(**members):
    return {
        "index": 0,
        "reason": None,
        "table": [],
        "suggestions": [],
        "blockers": [],
        "ahead": 0,
        "waits_for": [],
        "expected_start": None,
        "not_before": None,
        "expected_hosts": [],
        "assumption": "",
        "trials": 3,
        "note": "",
        **members,
    }


def test_parts_have_a_column_of_their_own():
    row = {"role": "", "code": "slots-busy", "hosts": 2, "resource": "", "needed": 0, "best": 0}
    rows = [
        {**row, "text": "2 hosts closed by the administrator"},
        {**row, "role": "part0", "needed": 4, "text": "2 hosts busy (needs 4 slots, ...)"},
    ]
    assert render_advice(advice(table=rows), NOW)[:3] == [
        "PART   HOSTS  WHY NOT                       NEEDED  BEST",
        "all        2  closed by the administrator",
        "part0      2  busy                         4 slots     0",
    ]


@pytest.mark.parametrize(
    ("code", "resource", "needed", "best", "shown"),
    [
        ("devices-busy", "", 3, 1, ["3 GPUs", "1"]),
        ("devices-busy", "milli", 250, 0, ["0.25 GPU", "0"]),
        ("devices-split", "", 1, 0, ["1 GPU", "0"]),
        ("no-device", "V100", 2, 0, ["2 GPUs", "0"]),
        ("amount-short", "mem", 100, 50, ["100 mem", "50"]),
    ],
)
def test_what_is_needed_is_counted_in_its_own_unit(code, resource, needed, best, shown):
    row = {"role": "", "code": code, "hosts": 2, "resource": resource, "needed": needed}
    row |= {"best": best, "text": "2 hosts wait (...)"}
    line = render_advice(advice(table=[row]), NOW)[1]
    assert line.split("wait")[1].split() == " ".join(shown).split()


def test_those_in_front_and_those_that_run_are_told_apart():
    blocker = {"jobid": 7, "index": 3, "user": "a", "queue": "q", "hosts": ["h1"], "ends_at": None}
    assert render_advice(advice(ahead=2), NOW)[0] == (
        "2 jobs are in front of it, and what comes free goes there first."
    )
    lines = render_advice(advice(ahead=1, blockers=[blocker]), NOW)
    assert lines[0].endswith("goes there first; apart from that, these must end:")
    assert lines[1:3] == [
        "MUST END  USER  QUEUE  HOSTS  EXPECTED END",
        "7[3]      a     q      h1     unknown",
    ]
    assert render_advice(advice(waits_for=[4, 5]), NOW)[0] == "It waits for: 4 5"


def test_long_assumptions_are_folded_and_notes_come_last():
    lines = render_advice(
        advice(assumption="word " * 40 + "end", not_before=NOW + 90, note="cut"), NOW
    )
    assert lines[0] == "Expected start: unknown, not before 2023-11-14 22:14:50 (in 1m 30s),"
    assert all(len(line) <= 101 for line in lines)
    assert lines[-1] == "Note: cut."


def test_a_plan_that_starts_is_one_line():
    plan = {
        "queue": "normal",
        "default_queue": False,
        "starts_now": True,
        "advice": advice(),
        "hosts": [["h1", 1], ["h2", 3]],
    }
    assert render_plan(plan, NOW) == [
        "The job would be taken by queue normal and start at once on h1 h2*3."
    ]
    plan = {**plan, "starts_now": False, "advice": advice(note="too slow")}
    assert render_plan(plan, NOW)[0] == "The job would be taken by queue normal."


@pytest.mark.parametrize(
    ("at_s", "text"), [(NOW - 60, "(overdue)"), (NOW + 5, "(in 5s)"), (NOW + 90_000, "(in 1d 1h)")]
)
def test_instants_say_how_far_off_they_are(at_s, text):
    assert when(at_s, NOW).endswith(text)
