"""Job, host and queue rows as REST answers them, for tests of what the commands print."""

import time

import pytest

from xce.cli.lsf import times

AT = 1_720_085_460.25  # Thu Jul  4 09:31:00 2024 UTC
NOW = AT + 3_600


@pytest.fixture
def utc(monkeypatch):
    """Local time is UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    times._minutes.clear()
    yield
    monkeypatch.undo()
    time.tzset()
    times._minutes.clear()


def make_row(**members):
    row = {
        "jobid": 1234,
        "index": 0,
        "count": 1,
        "step": 1,
        "stat": "PEND",
        "user": "alice",
        "queue": "normal",
        "project": "default",
        "from_host": "login01",
        "name": "prep",
        "named": True,
        "command": "./prep.sh",
        "hosts": [],
        "slots": 0,
        "tasks_min": 1,
        "tasks_max": 1,
        "submit_at": AT,
        "ineligible_s": 0.0,
        "start_at": None,
        "end_at": None,
        "attempt": 0,
        "exit_code": None,
        "signal": None,
        "cause": "",
        "cause_text": "",
        "ended_by": "",
        "detail": "",
        "cpu_s": None,
        "max_mem_mib": None,
        "pid": None,
        "usage": None,
        "run_limit_s": None,
        "estimate_s": None,
        "mem_limit_kib": None,
        "resreq_asked": "",
        "resreq": "",
        "dependency": "",
        "hosts_asked": "",
        "exclusive": False,
        "cwd": "/home/alice/work",
        "cwd_given": "",
        "home": "/home/alice",
        "input": "",
        "output": "",
        "error": "",
        "output_append": True,
        "error_append": True,
        "begin_at": None,
        "deadline_at": None,
        "array": "",
        "array_limit": 0,
        "priority": 0,
        "ending": False,
        "reason": None,
    }
    row.update(members)
    return row


def make_reason(*lsf, code="hosts", **members):
    return {
        "code": code,
        "text": "no host can take it now",
        "lsf": list(lsf),
        "unsatisfiable": False,
        "hosts": [],
        "needed": 0,
        "available": 0,
        "resource": "",
        "parts": [],
        **members,
    }


def make_host_reason(code, hosts, lsf, *, candidate, role="", names=()):
    return {
        "code": code,
        "hosts": hosts,
        "resource": "",
        "needed": 1,
        "best": 0,
        "lsf": lsf,
        "candidate": candidate,
        "role": role,
        "names": list(names),
    }


def make_pending(jobid, *host_reasons, main=(), **members):
    """Return a row whose job pends for reasons of hosts: ``(code, hosts, text, candidate)``."""
    hosts = [make_host_reason(*one[:3], candidate=one[3]) for one in host_reasons]
    lines = [
        f"{text}: {count} host{'' if count == 1 else 's'}" for _, count, text, _ in host_reasons
    ]
    return make_row(jobid=jobid, reason=make_reason(*main, *lines, hosts=hosts), **members)


def make_usage(**members):
    """Return what a running job uses now."""
    usage = {
        "at": AT + 3595, "cpu_s": 12.34, "mem_mib": 40.2, "max_mem_mib": 41.0, "avg_mem_mib": 38.7,
        "swap_mib": 0.0, "threads": 3, "pids": [6395, 6396], "unknown": [],
    }  # fmt: skip
    return usage | members


def running(**members):
    members = {"hosts": [["n060", 1]], "usage": make_usage(), **members}
    return make_row(stat="RUN", start_at=AT + 5, attempt=1, pid=6395, **members)


def ended(stat="DONE", **members):
    members = {"hosts": [["n060", 1]], "exit_code": 0, "cpu_s": 2.1, "max_mem_mib": 41, **members}
    return make_row(stat=stat, start_at=AT + 5, end_at=AT + 65.5, attempt=1, pid=6395, **members)


def hard_rows():
    """Every state, long names, many hosts, arrays, other scripts, several lines."""
    return [
        running(jobid=1234, name="big_analysis", hosts=[["n060", 16], ["n061", 16]]),
        make_row(
            jobid=1235, submit_at=AT + 60, reason=make_reason("New job is waiting for scheduling")
        ),
        make_row(jobid=123456789, user="a_very_long_user", queue="a_long_queue_name", name="x"),
        make_row(
            jobid=1236,
            stat="PSUSP",
            name="held",
            named=False,
            from_host="login-01.example.org",
            ineligible_s=3550.9,
        ),
        running(jobid=1237) | {"stat": "USUSP"},
        running(jobid=1238) | {"stat": "SSUSP"},
        running(jobid=1239, name="exactly_10", hosts=[[f"host{n:02d}", 2] for n in range(10)]),
        ended(jobid=1240, name="größe-naïve-日本語-job"),
        ended("EXIT", jobid=1241, exit_code=42, name="eleven_char"),
        ended(
            "EXIT",
            jobid=1242,
            exit_code=None,
            signal=9,
            cause="TERM_MEMLIMIT",
            cause_text="TERM_MEMLIMIT: job killed after reaching LSF memory usage limit",
        ),
        make_row(
            jobid=1243,
            stat="EXIT",
            end_at=AT + 9,
            cause="TERM_OWNER",
            cause_text="TERM_OWNER: job killed by owner",
            name="name with  blanks",
        ),
        make_row(
            jobid=1244,
            index=3,
            count=3,
            step=2,
            name="arr",
            array="1-9:2",
            reason=make_reason("The job array has reached its running element limit"),
        ),
        running(
            jobid=1244, index=1, name="arr", array="1-9:2", hosts=[["a_host_with_a_long_name", 1]]
        ),
        ended(jobid=1244, index=10000000, name="a_long_array_name", array="1-10000000"),
        make_row(
            jobid=1245,
            named=False,
            name="#!/bin/sh\necho 1\necho 2\n",
            command="#!/bin/sh\necho 1\necho 2\n",
        ),
    ]


def make_host(**members):
    return {
        "name": "hosta",
        "status": "ok",
        "slots_max": 16,
        "njobs": 4,
        "run": 4,
        "ssusp": 0,
        "ususp": 0,
        "rsv": 0,
        "mem_mib": 64000,
        "mem_used_mib": 4096,
        "cpus": 16,
        "counters": {},
        "attributes": {},
        "isolation": "cgroup-v2",
        "version": "0.1.0",
        "comment": "",
        "boot_id": "b",
        **members,
    }


def make_queue(**members):
    return {
        "name": "normal",
        "priority": 30,
        "open": True,
        "active": True,
        "default": True,
        "description": "",
        "max": None,
        "njobs": 12,
        "pend": 4,
        "run": 8,
        "susp": 0,
        "ssusp": 0,
        "ususp": 0,
        "rsv": 0,
        "run_limit_s": None,
        "default_run_limit_s": None,
        "tasks_min": 1,
        "tasks_max": None,
        "mem_limit_mib": None,
        "exclusive": False,
        "users": [],
        "hosts": [],
        **members,
    }
