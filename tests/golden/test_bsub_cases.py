"""Real option blocks of ``bsub``, and what must be understood of them."""

import json
import os
import shlex
from pathlib import Path

import pytest
import yaml
from bsub_notation import DEFAULTS, normal, reading_of

from xce.cli.explain import main as explain
from xce.cli.lsf.front import run

DATA = Path(__file__).parents[1] / "data"
CASES = [
    pytest.param(case, id=case["id"])
    for name in ("bsub-cases.yaml", "bsub-cases-more.yaml")
    for case in yaml.safe_load((DATA / name).read_text(encoding="utf-8"))["cases"]
]


def explained(case, tmp_path):
    """Run ``bsub --explain`` on a case; return status, stdout and stderr."""
    words = shlex.split(case.get("args", "").replace("\\\n", " "))
    environ = {"XCE_DIR": str(tmp_path), **case.get("environ", {})}
    if "site" in case:
        environ["LSF_UNIT_FOR_LIMITS"] = case["site"]
    text = case.get("stdin", "")
    if "lines" in case:
        text = f"#!/bin/sh\n{case['lines']}\n./app\n"
    if case.get("crlf"):
        text = text.replace("\n", "\r\n")
    script = tmp_path / "stdin"
    script.write_bytes(text.encode())
    out, err = [], []
    saved = os.dup(0)
    with script.open("rb") as stream:
        os.dup2(stream.fileno(), 0)
        try:
            status = run(
                ["--explain", *words],
                explain.OPTIONS,
                explain.USAGE,
                explain.execute,
                environ,
                write_out=out.append,
                write_err=err.append,
                until_word=True,
            )
        finally:
            os.dup2(saved, 0)
            os.close(saved)
    return status, b"".join(out).decode(), b"".join(err).decode()


@pytest.mark.parametrize("case", CASES)
def test_a_case_is_understood_as_it_must_be(case, tmp_path):
    status, out, err = explained(case, tmp_path)
    expect = case["expect"]
    if "error" in expect:
        assert status in (2, 255)
        assert any(name in err for name in expect["error"]["names"]), err
        assert out == ""
        return
    if "csm" in case.get("tags", []):
        assert status == 2, err
        assert "-alloc_flags" in err
        return
    assert (status, err) == (0, "")
    found = reading_of(json.loads(out))
    for key, value in {**DEFAULTS, **normal(expect)}.items():
        if value == "any":
            continue
        if isinstance(value, dict) and key in ("gpu", "mail", "expanded"):
            assert value.items() <= found[key].items(), key
        else:
            assert found.get(key) == value, key
