import json

import pytest
from specs import asked, site, with_relations

from xce.jobspec.render import render_spec
from xce.model.job import Files, JobSpec
from xce.model.request import ClassKey
from xce.resreq.compile import compile_request


def rendered(text: str) -> dict:
    found = asked(text)
    job = JobSpec(command="run", roles=found.roles, relations=found.relations)
    return render_spec(job, ClassKey(found.request, "normal", "alice"), script="run")


@pytest.mark.parametrize(
    "text",
    [
        with_relations(
            "kind: colocate, roles: [a, b], scope: switch, relax_after: 60s",
            "kind: exchange, from: a, to: [b, c], channel: network, bandwidth: 100G, rdma: true",
            "kind: spread, roles: a, max_per_domain: 2, weight: 3, strength: preferred",
            "kind: colocate, from: b, to: 'group:g', scope: block",
            "kind: isolate, roles: c",
        ),
        "version: 1\ncommand: run\nroles: [{name: w, count: 2-4, resreq: 'rusage[mem=2G]'}]",
        "version: 1\ncommand: run\nroles: [{name: a}, {name: b, resreq: 'same[type]'}]\nsame: type",
        "version: 1\ncommand: run\nresreq: '{2*{a: order[mem]}} || {1*{a: order[mem]}}@5'",
        "version: 1\ncommand: run\nresreq: 'rusage[mem=3||mem=2]'\ntasks: 2-3",
    ],
)
def test_what_is_shown_means_the_same(text: str):
    again = asked(json.dumps(rendered(text)))
    before = asked(text)
    assert (again.request, again.relations) == (before.request, before.relations)


def test_every_form_of_a_submission_is_a_jobspec():
    request = compile_request(
        ["2*{rusage[mem=3]} + 1*{b: select[ncpus > 2]}"], config=site(), exclusive=True
    )
    job = JobSpec(
        name="n", command="./x", args=("1",), cwd_asked="/d", array="1-9", dependency="done(1)",
        files=Files(output="out", output_append=False), mem_limit_kib=2048, hosts_asked="h1",
    )  # fmt: skip
    key = ClassKey(request, "night", "u", "p", 5, 60_000_000, 30_000_000)
    assert render_spec(job, key, script="#!/bin/sh\ntrue\n") == {
        "version": 1, "script": "#!/bin/sh\ntrue\n", "args": ["1"], "name": "n", "queue": "night",
        "project": "p", "cwd": "/d", "output": "out", "run_limit": "60s", "estimate": "30s",
        "mem_limit": "2M", "dependency": "done(1)", "priority": 5, "array": "1-9", "hosts": "h1",
        "exclusive": True, "output_append": False,
        "roles": [
            {"name": "part0", "count": 2, "resreq": "rusage[mem=3.00]"},
            {"name": "b", "count": 1, "resreq": "select[ncpus > 2]"},
        ],
    }  # fmt: skip
