"""Every form of a submission, shown as a jobspec and submitted again, is the same job."""

import shlex

import pytest
from round_trip import Bench
from specs import with_relations

from xce.cli.lsf import bsub
from xce.cli.lsf.options import parse_options
from xce.cli.lsf.submission import build_submission
from xce.model.job import JobSpec

COMMAND_LINES = """
-J name -q night -P project -sp 7 -g /a/b sleep 1
-J "arr[1-10:2,15]%3" -o out.%J.%I -e err.%I true
-J "[1-4]" true
-oo over -eo over2 -i /dev/null -outdir out/%J -cwd work/%J true
-o "a b" -e 'it'"'"'s' true
-n 4 -R "span[ptile=2]" -R "rusage[mem=2G] select[mem > 100 && ncpus >= 2]" true
-n 2,4 -R "rusage[mem=1000] order[-slots:mem] same[type] span[hosts=1]" true
-n 4 -R "rusage[mem=3:duration=10m:decay=1] affinity[core(2)]" true
-n 4 -R "cu[type=switch:maxcus=1:pref=maxavail]" true
-R "rusage[mem=3||mem=2]" -n 2,3 true
-R "2*{rusage[mem=3]} + 1*{b: select[ncpus > 2]}" true
-R "{2*{a: order[mem]}} || {1*{a: order[mem]}}@5" true
-R "{rusage[mem=2]}||{rusage[mem=1]}@3" -n 2 true
-nnodes 2 -n 9 true
-n 2 -gpu - true
-n 4 -gpu "num=2/task:mode=exclusive_process:gmodel=H100-80G:gmem=81921M:glink=yes:aff=yes" true
-gpu "num=1:mig=3/2:gvendor=nvidia:block=yes" true
-gpu "num=4:gtile=2" true
-n 2 -gpu "num=2/task:gtile=!" true
-R "rusage[ngpus_physical=4/host:gtile=2]" true
-gpu "num=1:mps=yes" true
-gpu "num=1:mode=exclusive_process:mps=yes,nocvd" true
-R "rusage[gpu=2:mps=yes,nocvd]" true
-R "rusage[gpu=0.25:mps=yes,nocvd,shared]" true
-gpu "num=1:mps=yes,shared" true
-R "rusage[gpu=0.25]" true
-R "rusage[ngpus_physical=2:gmodel=A100]" -n 2 true
-W 1:30 -We 10 -M 1500K -x -m "h1+2 h2 others" true
-c 2:00 -v 4G -p 10 -T 20 -S 8M -D 1G -F 1500K -C 0 true
-w "done(1) || ended(1)" -ti -r true
-q night -rn true
-q night -r true
-H -b 2030:1:2:3:04 -t 2031:1:2:3:04 true
-E "echo before" -Ep "echo 'after it'" -wa USR1 -wt 5 -W 60 true
-wa "echo 'ends soon' > note" -wt 5 -W 60 true
-B -N -u "a@example.org,b@example.org" true
-Ne -Q "1 2 EXCLUDE(3 4)" -L /bin/bash true
-q shared -G dev true
-Jd "two words: and $a 'quote'" true
-f "/dev/null > in" -f "/dev/null < out.%J" true
-k "checks 10 init=30 method=mine" true
-app fluent true
-app fluent -R "rusage[mem=2G]" -n 2 true
sleep 5 && echo "two  blanks" | cat
""".strip().splitlines()
BY_ROLES = """
version: 1
roles:
  - {name: a, command: serve, ready: {tcp: 80, period: 2s, failures: 3}, output: "o.%T"}
  - {name: b, count: 2, command: work, cwd: sub, env: {B: "x y"}}
  - {name: log, attach: [b], per: host, command: tail}
relations:
  - {kind: ready-after, from: b, to: a}
  - {kind: fate, roles: [a, b], policy: tolerate}
"""
WHOLE = """
version: 1
command: run
resreq: "rusage[mem=2]"
unit: GB
tasks: 2
relations: [{kind: colocate, roles: part0, scope: switch}]
"""
NOT_KEPT = {
    "-h",
    "-help",
    "-V",
    "--wait-daemon",
    "-I",
    "-Ip",
    "-Is",
    "-is",
    "-K",
    "-env",
    "-ul",
    "--plan",
}
"""Options that say how to submit, and those whose content is no text of a few lines."""


def body_of(line: str) -> dict[str, object]:
    """Return the body that bsub sends for these words."""
    options = parse_options(shlex.split(line), bsub.OPTIONS, until_word=True)
    body = build_submission(options, {}, lambda: "MB", now_s=1_900_000_000)
    queue = {"queue": options.value("-q")} if options.has("-q") else {}
    own = {key: value for key, value in body.items() if key not in ("umask", "env", "cwd", "home")}
    return {**own, **queue, "from_host": "login", "command": " ".join(options.rest)}


@pytest.fixture(scope="module")
def bench() -> Bench:
    bench = Bench(lsf_unit_for_limits="GB", checkpoint_programs="/opt/checkpoints")
    bench.submit({"command": "first"})
    return bench


@pytest.mark.parametrize("line", COMMAND_LINES)
def test_a_job_of_bsub_is_the_same_when_its_jobspec_is_submitted(bench, line):
    before, after, _ = bench.again(body_of(line))
    assert after == before


def test_every_option_of_bsub_that_says_something_of_a_job_is_among_them():
    words = {word for line in COMMAND_LINES for word in shlex.split(line)}
    options = {*bsub.OPTIONS.known} - NOT_KEPT
    assert options <= words


@pytest.mark.parametrize(
    "body",
    [
        {"script": "#!/bin/sh\necho hello\n\n"},
        {"script": "#!/bin/sh\n\techo 'tab' ü \\ $HOME\n", "args": ["1", "two words"]},
        {"script": "echo one line", "script_name": "job.sh", "args": ["a b", ""]},
        {"script": "hostname\n", "script_name": "./my job.sh"},
        {"script": "hostname\n"},
        {"command": "a\nb"},
        {"command": "true", "run_limit_s": 1.5, "estimate_s": 0.000001},
        {"command": "true", "begin_at": 1_900_000_000.123456},
        {"command": "true", "deadline_at": 1_900_000_000.123456},
        {"command": "true", "resreq": ["rusage[mem=2]"], "unit_for_limits": "KB"},
        {"command": "true", "placement_group": "exp,pack,soft,switch", "tasks": [2, 2]},
        {"command": "true", "placement_group": "exp,spread", "resreq": ["1*{} + 2*{b:}"]},
        {"command": "true", "gpu": {"gmem": 1048577, "nvlink": True}},
        {"command": "true", "limits": {"cpu_limit_s": 0.25, "core_limit_kib": 7}},
        {"command": "true", "mem_limit_kib": 1025, "priority": -3},
        {"command": "true", "description": 'line\n  "two": [yes, #no]\n'},
    ],
)
def test_a_job_of_rest_is_the_same_too(bench, body):
    before, after, _ = bench.again(body)
    assert after == before


@pytest.mark.parametrize(
    "text",
    [
        with_relations(
            "kind: colocate, roles: [a, b], scope: switch, relax_after: 60s",
            "kind: exchange, from: a, to: [b, c], channel: network, bandwidth: 100G, rdma: true",
            "kind: spread, roles: a, max_per_domain: 2, weight: 3, strength: preferred",
            "kind: colocate, from: b, to: 'group:g', scope: block",
        ),
        "version: 1\ncommand: run\nroles: [{name: w, count: 2-4, resreq: 'rusage[mem=2G]'}]",
        "version: 1\ncommand: run\nroles: [{name: a, resreq: 'order[mem]'}, {name: b}]\nsame: type",
        "version: 1\nroles: [{name: w, count: 2, command: run, launch: tasks, env: {A: '1'}}]",
        BY_ROLES,
        WHOLE,
    ],
)
def test_a_job_of_a_jobspec_is_the_same_too(bench, text):
    before, after, _ = bench.again({"spec": text})
    assert after == before


def test_all_that_is_kept_of_a_job_was_said_by_one_of_these(bench):
    seen = [bench.stored(job).spec for job in bench.controller.state.jobs]
    plain = JobSpec()
    silent = {
        name
        for name in JobSpec.__struct_fields__
        if all(getattr(spec, name) == getattr(plain, name) for spec in seen)
    }
    # A terminal is that of who submits, as are the variables and the umask.
    assert silent == {"terminal", "umask"}
