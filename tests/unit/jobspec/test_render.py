from xce.jobspec.render import Standing, render_spec
from xce.model.config import HostConfig
from xce.model.job import Files, JobSpec
from xce.model.mail import Notice
from xce.model.process_limits import ProcessLimits
from xce.model.relation import Role
from xce.model.request import ClassKey
from xce.resreq.compile import compile_request
from xce.testing.builders import config

SITE = config([HostConfig(name="h1", slots=4)])


def test_every_form_of_a_submission_is_a_jobspec():
    text = "2*{rusage[mem=3]} + 1*{b: select[ncpus > 2]}"
    job = JobSpec(
        name="n", command="./x 1", args=("1",), cwd_asked="/d", array="1-9", dependency="done(1)",
        files=Files(output="out", output_append=False), mem_limit_kib=2048, hosts_asked="h1",
        requested=text, unit="KB", tasks_asked=(3, 3), run_limit_asked_us=60_000_000,
        limits=ProcessLimits(cpu_us=1_500_000, core_kib=0), requeue_codes=(1, 2, 3),
        requeue_elsewhere=(3,), notices=int(Notice.START | Notice.EXIT), warning_signal=10,
        warning_us=300_000_000, deadline_us=9_500_000,
        gpu_asked="num=2/task:mode=shared:mps=no:j_exclusive=yes",
    )  # fmt: skip
    request = compile_request([text], config=SITE, exclusive=True)
    key = ClassKey(request, "night", "u", "p", 5, 60_000_000, 30_000_000)
    standing = Standing(array_limit=4, hold=True, begin_at_us=5_250_000, queue_reruns=True)
    assert render_spec(job, key, script="#!/bin/sh\ntrue\n", standing=standing) == {
        "version": 1, "script": "#!/bin/sh\ntrue\n", "script_name": "./x", "args": ["1"],
        "name": "n", "queue": "night", "project": "p", "cwd": "/d", "output": "out",
        "run_limit": "60s", "estimate": "30s", "mem_limit": "2M", "dependency": "done(1)",
        "priority": 5, "array": "1-9%4", "hosts": "h1", "exclusive": True, "hold": True,
        "begin_at": 5.25, "deadline_at": 9.5, "requeue": [1, 2], "requeue_elsewhere": [3],
        "warning": "300s", "warning_signal": 10, "notices": ["start", "exit"],
        "limits": {"cpu": "1.5s", "core": "0K"}, "rerunnable": False, "output_append": False,
        "resreq": text, "unit": "KB", "tasks": 3,
        "gpu": {"num": 2, "per": "task", "mode": "shared", "mps": False, "j_exclusive": True},
    }  # fmt: skip


def test_roles_stand_with_what_they_ask_for():
    request = compile_request(["2*{rusage[mem=3]} + 1*{b: select[ncpus > 2]}"], config=SITE)
    job = JobSpec(command="run", roles=(Role("part0", 2), Role("b", 1, "select[ncpus>2]")))
    assert render_spec(job, ClassKey(request, "normal", "alice"))["roles"] == [
        {"name": "part0", "count": 2, "resreq": "rusage[mem=3.00]"},
        {"name": "b", "count": 1, "resreq": "select[ncpus>2]"},
    ]


def test_a_script_that_is_not_kept_any_more_is_what_listings_show():
    request = compile_request([], config=SITE)
    job = JobSpec(command="#!/bin/sh;true")
    assert render_spec(job, ClassKey(request, "normal", "alice"))["command"] == "#!/bin/sh;true"
