"""Values at the edges of what the listings must bear, against kept texts."""

from pathlib import Path

import pytest
from command_text import transcript
from golden_text import check_golden
from job_rows import AT, NOW, ended, make_reason, make_row, running, utc  # noqa: F401 - a fixture

from xce.cli.lsf import bacct, bhist, bjobs

FOLDER = Path(__file__).parent / "lsf"
pytestmark = pytest.mark.usefixtures("utc")
YEAR = {"LSB_DISPLAY_YEAR": "Y"}
NEW_YEAR = 1_704_067_200.0  # Mon Jan  1 00:00:00 2024 UTC
LEAP_DAY = 1_709_251_199.0  # Thu Feb 29 23:59:59 2024 UTC
LATE = 4_102_444_800.0  # Fri Jan  1 00:00:00 2100 UTC
TEN_HOSTS = [[f"rack-7-node-{n:02d}.cluster.example.org", n] for n in range(1, 11)]
STATES = ("PEND", "PSUSP", "RUN", "USUSP", "SSUSP", "UNKWN", "ZOMBI", "DONE", "EXIT")
LONG_FORM_COLUMNS = 79


def answer(*rows):
    return {"GET /jobs": {"seq": 9, "now": NOW, "jobs": list(rows), "missing": [], "next": None}}


def in_state(stat, jobid):
    if stat in {"PEND", "PSUSP"}:
        return make_row(jobid=jobid, stat=stat)
    return (ended(stat) if stat in {"DONE", "EXIT"} else running() | {"stat": stat}) | {
        "jobid": jobid
    }


def unicode_rows():
    """Names that are wide, that combine, that run right to left, that lie beyond 16 bits."""
    return [
        running(jobid=7, user="łukasz", queue="nächtlich", from_host="büro-01", name="日本語" * 12),
        running(jobid=8, user="josé", name="e\u0301" * 40, command="printf '\U0001f680%s' " * 9),
        make_row(
            jobid=9, name="שלום עולם", project="проект",
            reason=make_reason("Keine Plätze frei: 12 Hosts, davon größer als nötig: 3 Hosts"),
        ),
    ]  # fmt: skip


def over_years():
    """Jobs whose submission, start and end lie in different years, and at the edges of days."""
    return [
        ended(jobid=1, hosts=TEN_HOSTS) | {
            "submit_at": NEW_YEAR - 1, "start_at": NEW_YEAR, "end_at": LEAP_DAY,
            "slots": 55, "tasks_min": 55, "tasks_max": 55,
        },
        make_row(jobid=2, submit_at=LEAP_DAY + 1, begin_at=LATE),
    ]  # fmt: skip


def history(*rows):
    spans = dict.fromkeys(("pend", "psusp", "run", "ususp", "ssusp", "unkwn"), 12.5)
    told = [
        row | {
            "spans": spans,
            "steps": [
                {"at": row["submit_at"], "what": "submitted", "by": row["user"]},
                {"at": row["submit_at"] + 1, "what": "dispatched", "hosts": row["hosts"]},
                {"at": row["submit_at"] + 1, "what": "started", "hosts": row["hosts"], "pid": 7},
                {"at": AT + 65.5, "what": "done", "hosts": row["hosts"]},
            ],
        }
        for row in rows
    ]  # fmt: skip
    page = {"seq": 1, "now": NOW, "rows": told, "missing": [], "next": None}
    return {"GET /history/jobs": page, "GET /history/usage": page}


def test_every_state_has_its_line_in_every_form():
    rows = [in_state(stat, 100 + n) for n, stat in enumerate(STATES)]
    texts = [
        transcript(bjobs, words, answer(*rows))
        for words in ([], ["-a", "-w"], ["-o", "jobid stat"], ["-sum", "-a"], ["-l"])
    ]
    check_golden(FOLDER / "hard-states.txt", "".join(texts))
    for stat in STATES:
        assert f" {stat} " in texts[0]


def test_names_of_every_script_are_listed_whole_and_cut():
    texts = [
        transcript(bjobs, words, answer(*unicode_rows()))
        for words in ([], ["-w"], ["-l"], ["-p"], ["-o", "user:-6 name:12 queue:"], ["-json"])
    ]
    check_golden(FOLDER / "hard-unicode.txt", "".join(texts))


def test_years_are_told_where_they_are_asked_for():
    texts = [transcript(bjobs, ["-a"], answer(*over_years()))]
    for environ in ({}, YEAR):
        texts.append(transcript(bjobs, ["-l"], answer(*over_years()), environ))
        texts.append(transcript(bhist, ["-l", "1"], history(over_years()[0]), environ))
        texts.append(transcript(bacct, ["-l", "1"], history(over_years()[0]) | SUMS, environ))
    check_golden(FOLDER / "hard-years.txt", "".join(texts))


SUMS = {"GET /history/sums": {"seq": 1, "sums": dict.fromkeys((
    "done", "exited", "cpu_s", "cpu_s_max", "cpu_s_min", "wait_s", "wait_s_max", "wait_s_min",
    "turnaround_s", "turnaround_s_max", "turnaround_s_min", "hog", "hog_max", "hog_min",
    "expansion", "expansion_max", "expansion_min", "run_s", "run_s_max", "run_s_min", "ran",
    "first_end_at", "last_end_at",
), 0)}}  # fmt: skip


@pytest.mark.parametrize("rows", [unicode_rows(), over_years()], ids=["unicode", "years"])
def test_no_line_of_the_long_form_is_wider_than_its_columns(rows):
    told = transcript(bjobs, ["-l"], answer(*rows), YEAR)
    lines = [
        line for line in told.splitlines() if not line.startswith(("$", " load", "           r15s"))
    ]
    assert max(map(len, lines)) <= LONG_FORM_COLUMNS
