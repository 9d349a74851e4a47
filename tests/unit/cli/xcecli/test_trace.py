"""``xcecli trace``: from a cluster and from a directory."""

import asyncio
import io
import json
from pathlib import Path

import yaml
from rest_cluster import run_rest

from xce.cli.xceadmin.main import main
from xce.cli.xcecli.main import execute
from xce.journal.trace_store import TraceWriter
from xce.model.trace import EVERYTHING
from xce.sched.session import run_session
from xce.sched.traced import Trace

SCENARIOS = Path(__file__).parents[3] / "scenarios"


def cli(*words, **environ):
    out, err = io.StringIO(), io.StringIO()
    code = execute(["trace", *words], {"XCE_WAIT_DAEMON": "0", **environ}, out, err)
    return code, out.getvalue(), err.getvalue()


def test_a_directory_is_read_without_a_cluster(tmp_path):
    words = ["sim", "run", str(SCENARIOS / "kill.yaml"), "--trace", str(tmp_path / "t")]
    assert main(words) == 0
    directory = str(tmp_path / "t")
    code, text, err = cli("1", "--dir", directory)
    assert (code, err) == (0, "")
    assert text.startswith("Session 1, 2027-01-15 00:00:01.000 UTC, behind entry")
    _, out, _ = cli("1", "--dir", directory, "-o", "json")
    document = json.loads(out)
    _, out, _ = cli("1", "--dir", directory, "-o", "yaml")
    assert yaml.safe_load(out) == document
    assert document["damaged"] == []
    code, out, err = cli("99", "--dir", directory)
    assert (code, out, err) == (3, "", "xcecli: nothing was traced about job 99\n")
    assert cli("--dir", directory, "--session", "77")[0] == 3
    (tmp_path / "t" / "000000000099.trace").write_text("rubbish")
    code, out, err = cli("1", "--dir", directory)
    assert (code, out) == (0, text)
    assert "000000000099.trace: is no file of traces; it is skipped" in err


def test_bad_words_are_told(tmp_path):
    for words, text in (
        (["12[3]"], "'12[3]' is no job id"),
        (["0"], "'0' is no job id"),
        (["--limit", "0"], "--limit 0"),
        (["--session", "-1"], "--session -1"),
        (["--now"], "--now goes with a JOB"),
        (["1", "--now", "--dir", str(tmp_path)], "--now goes with a JOB"),
    ):
        code, _, err = cli(*words)
        assert code == 2, words
        assert text in err
    code, _, err = cli("--dir", str(tmp_path / "none"))
    assert (code, err) == (3, f"xcecli: there are no traces in {tmp_path / 'none'}\n")
    (tmp_path / "file").touch()
    code, _, err = cli("--dir", str(tmp_path / "file"))
    assert code == 1
    assert "Not a directory" in err


def test_a_cluster_is_asked_and_what_to_do_is_told_when_nothing_was_traced(tmp_path):
    async def story(rest):
        rest.backend.site = type(rest.backend.site)(traces=tmp_path)
        job = await rest.submit()
        environ = {"XCE_API_SOCKET": rest.socket}
        code, out, err = await asyncio.to_thread(cli, str(job), **environ)
        assert (code, out) == (3, "")
        assert err == (
            "xcecli: nothing was traced about job 1; "
            "'xceadmin trace on --job 1 --for 10m' has sessions tell of it\n"
        )
        _, _, err = await asyncio.to_thread(cli, "-q", "normal", **environ)
        assert "trace on --queue normal --for 10m" in err
        code, out, _ = await asyncio.to_thread(cli, str(job), "--now", **environ)
        assert code == 0
        assert "STARTS 1 element" in out
        trace = Trace([EVERYTHING])
        run_session(rest.controller.state, now_us=rest.controller.now_us, trace=trace)
        TraceWriter(tmp_path).write(trace.session)
        code, out, _ = await asyncio.to_thread(cli, str(job), **environ)
        assert code == 0
        assert out.startswith("Session 1, ")

    run_rest(story)
