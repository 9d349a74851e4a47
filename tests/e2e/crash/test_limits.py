"""Limits of CPU time, swap, processes and sizes on a live cluster: what the whole job and each
process may use, with control groups and without."""

from live import Live, Row

BUSY = "while :; do :; done"
GREEDY = "exec python3 -c 'x = bytearray(100 << 20); import time; time.sleep(60)'"


def ended(live: Live, *jobs: int) -> list[Row]:
    return [live.until_ended(job, patience_s=60) for job in jobs]


def test_the_whole_job_is_ended_at_its_limits(live: Live) -> None:
    jobs = {
        # One process: the kernel ends it; two: together they have used the time.
        "TERM_CPULIMIT": live.submit(BUSY, limits={"cpu_limit_s": 1}),
        "TERM_CPULIMIT ": live.submit(f"({BUSY}) & {BUSY}", limits={"cpu_limit_s": 2}),
        "TERM_PROCESSLIMIT": live.submit(
            "for n in 1 2 3; do sleep 60 & done; wait", limits={"process_limit": 3}
        ),
        "TERM_SWAP": live.submit(GREEDY, limits={"swap_limit_kib": 60 << 10}),
        "": live.submit("sleep 1 & wait", limits={"process_limit": 3, "thread_limit": 9}),
    }
    rows = dict(zip(jobs, ended(live, *jobs.values()), strict=True))
    assert {word: row["cause"] for word, row in rows.items()} == {
        word: word.strip() for word in jobs
    }
    assert rows[""]["stat"] == "DONE", rows[""]
    assert 1.5 < rows["TERM_CPULIMIT "]["cpu_s"] < 20


def test_each_process_has_the_soft_limits_that_were_asked_for(live: Live) -> None:
    limits = {
        "stack_limit_kib": 4096, "file_limit_kib": 100, "core_limit_kib": 0,
        "data_limit_kib": 1 << 20, "cpu_limit_s": 90,
    }  # fmt: skip
    script = "#!/bin/sh\nfor letter in t s f c d; do ulimit -S -$letter; done\n"
    body = {**live.submission("", limits=limits), "script": script}
    del body["command"]
    plain, scripted, big = (
        live.submit("for letter in t s f c d; do ulimit -S -$letter; done", limits=limits),
        *live.submit_all([body]),
        live.submit("head -c 300000 /dev/zero >big; echo $?", limits={"file_limit_kib": 200}),
    )
    rows = ended(live, plain, scripted, big)
    assert [row["stat"] for row in rows] == ["DONE"] * 3, rows
    for job in (plain, scripted):
        assert live.output(job).split() == [b"90", b"4096", b"200", b"0", b"1048576"]
    assert (live.home / "big").stat().st_size == 200 << 10


def test_the_limit_of_a_running_job_is_changed(live: Live) -> None:
    job = live.submit(BUSY, limits={"cpu_limit_s": 600})
    live.until_stat(job, "run")
    live.act("modify", job, change={"limits": {"cpu_limit_s": 1}})
    (row,) = ended(live, job)
    assert (row["cause"], row["limits"]) == ("TERM_CPULIMIT", {"cpu_limit_s": 1.0})
