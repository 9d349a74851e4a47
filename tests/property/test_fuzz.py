"""Texts that people write, damaged at random: read, or refused in words, never a traceback.

A run draws from a fixed seed; the long form draws many more.
"""

import gzip
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import yaml

from xce.cli.explain import main as explain
from xce.cli.lsf.front import run
from xce.cli.xceadmin.scenario_words import CommandWords
from xce.model.errors import ConfigError, TextError
from xce.resreq.compile import compile_request, render_request
from xce.resreq.dependency import parse_dependency, render_dependency
from xce.resreq.errors import LanguageError
from xce.sim.scenario_file import parse_scenario
from xce.sim.scenario_run import WordsError
from xce.sim.swf import Cleaning, SwfError, clean, load_log, parse_log
from xce.sim.swf_core import BACKFILLS, simulate
from xce.testing.builders import cluster

TESTS = Path(__file__).parents[1]
CASES = [
    case
    for name in ("bsub-cases.yaml", "bsub-cases-more.yaml")
    for case in yaml.safe_load((TESTS / "data" / name).read_text(encoding="utf-8"))["cases"]
]
SCENARIOS = [path.read_text() for path in sorted((TESTS / "scenarios").glob("*.yaml"))]
REQUIREMENTS = [
    "select[mem > 2G && type == any || defined(fast)] order[-slots:mem] rusage[mem=2G,lic=1/job]",
    "rusage[mem=(400 200):duration=(10 15):decay=(1 0)] span[ptile=4] same[type:model]",
    "2*{select[ncpus>=2] span[hosts=1]} + 4*{rusage[mem=1G/host] cu[type=rack:maxcus=2]}",
    "{span[hosts=1]} || {span[ptile=2]}@30 || {cu[pref=minavail:usablecuslots=3]}",
    "affinity[core(2,same=socket,exclusive=(core,injob)):cpubind=core:membind=localonly]",
    "span[block=4] cu[balance] select['gpu' & !hname=='h1']",
]
DEPENDENCIES = [
    "done(1) && (ended(2) || exit(3, != 0)) && !started(4)",
    'numdone(12, >= 3) && post_done("my job[2-5]")',
    "done(arr[*]) || exit(5, 1) && 7",
]
LINES = [
    shlex.join(["bsub", *shlex.split(case.get("args", "").replace("\\\n", " "))]) for case in CASES
]
SCRIPTS = [
    f"#!/bin/sh\n{case['lines']}\n./app\n" if "lines" in case else case.get("stdin", "")
    for case in CASES
]
LOGS = [
    (TESTS / "data/swf/tiny.swf").read_text(),
    "\n".join(
        gzip.decompress((TESTS / "data/swf/kth-sp2-1996-excerpt.swf.gz").read_bytes())
        .decode()
        .splitlines()[:60]
    ),
]
PIECES = [
    *"()[]{}<>\"'\\|&!=*+-:;,.#%@$~/\t\n \x00\x7f\u00e9\u2028\U0001f600",
    "0", "1", "-1", "99999999999999999999", "1e309", "nan", "inf", "0x10", "\u0663", "1.5", "||",
    "&&", "[1-", "]*", "\r\n", "#BSUB ", "-R", "-n ", "-W 1:", "select[", "rusage[mem=", "} + {",
    "null", "true", "~", "!!int", "&a ", "*a", "- ", ": ", "at: ", "expect:", "done(", "\ud800",
]  # fmt: skip


def damaged(rng: Random, seeds: list[str]) -> str:
    """Return one of the texts with a few pieces cut, doubled, put in or taken from others."""
    text = rng.choice(seeds)
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        at = rng.randint(0, len(text))
        end = min(len(text), at + rng.choice((0, 0, 1, 1, 3, 20)))
        other = rng.choice(seeds)
        begin = rng.randint(0, len(other))
        put = rng.choice(
            (
                "", "", rng.choice(PIECES), rng.choice(PIECES), text[at:end] * 2,
                other[begin : begin + rng.randint(1, 30)], rng.choice(PIECES) * rng.randint(1, 300),
            )
        )  # fmt: skip
        text = text[:at] + put + text[end:]
    return text


def must(*, holds: object) -> None:
    assert holds


CONFIG = cluster({"h1": 1}, pools={"lic": 3}).state.config


def read_requirement(text: str, rng: Random, place: Path) -> None:
    try:
        request = compile_request([text], config=CONFIG, unit=rng.choice(("KB", "MB", "classic")))
    except TextError as error:
        must(holds=0 <= error.column <= len(text) + 1)
        must(holds=error.message)
        return
    render_request(request)


def read_dependency(text: str, rng: Random, place: Path) -> None:
    try:
        tree = parse_dependency(text)
    except LanguageError as error:
        must(holds=0 <= error.column <= len(text) + 1)
        return
    assert parse_dependency(render_dependency(tree)) == tree


def read_line(text: str, rng: Random, place: Path) -> None:
    try:
        CommandWords().submission(text, now_us=10**15, unit="MB")
    except WordsError as error:
        must(holds=str(error))


def read_script(text: str, rng: Random, place: Path) -> None:
    """Let ``bsub --explain`` read it on stdin, with the options of some case."""
    script = place / "stdin"
    script.write_bytes(text.encode("utf-8", "surrogatepass"))
    out: list[bytes] = []
    err: list[bytes] = []
    saved = os.dup(0)
    with script.open("rb") as stream:
        os.dup2(stream.fileno(), 0)
        try:
            status = run(
                ["--explain"], explain.OPTIONS, explain.USAGE, explain.execute,
                {"XCE_DIR": str(place)}, write_out=out.append, write_err=err.append,
                until_word=True,
            )  # fmt: skip
        finally:
            os.dup2(saved, 0)
            os.close(saved)
    assert (status == 0) == bool(out)
    assert status == 0 or b"".join(err).strip()
    assert b"Traceback" not in b"".join(err)


def read_scenario(text: str, rng: Random, place: Path) -> None:
    try:
        parse_scenario(text, file="s.yaml", name="s", load_texts=lambda _: {})
    except ConfigError as error:
        must(holds=str(error).startswith("s.yaml"))


def read_log(text: str, rng: Random, place: Path) -> None:
    try:
        log = parse_log(text.splitlines(), file="s.swf")
    except SwfError as error:
        must(holds=str(error).startswith("s.swf:"))
        return
    procs = min(log.processors or 4, 10**9)
    rule = Cleaning(procs, rng.random() < 0.5, rng.random() < 0.5, rng.random() < 0.5)
    jobs, dropped = clean(log.records, rule)
    assert len(jobs) + sum(dropped.values()) == len(log.records)
    starts = simulate(jobs, procs, backfill=rng.choice(BACKFILLS)).starts
    assert all(start >= job.submit for job, start in zip(jobs, starts, strict=True))


def read_packed_log(text: str, rng: Random, place: Path) -> None:
    """Damage the packed bytes, not the text."""
    content = bytearray(gzip.compress(text.encode("utf-8", "replace"), mtime=0))
    for _ in range(rng.randint(1, 4)):
        content[rng.randrange(len(content))] = rng.randrange(256)
    (place / "log.swf.gz").write_bytes(content[: rng.randint(1, len(content))])
    try:
        load_log(place / "log.swf.gz")
    except SwfError as error:
        must(holds="log.swf.gz" in str(error))


READERS: dict[str, tuple[Callable[[str, Random, Path], None], list[str], int]] = {
    "requirement": (read_requirement, REQUIREMENTS, 3000),
    "dependency": (read_dependency, DEPENDENCIES, 2000),
    "line": (read_line, LINES, 1500),
    "script": (read_script, SCRIPTS, 300),
    "scenario": (read_scenario, SCENARIOS, 1000),
    "log": (read_log, LOGS, 1000),
    "packed log": (read_packed_log, LOGS, 200),
}


def fuzz(name: str, times: int, seed: str, place: Path) -> None:
    read, seeds, share = READERS[name]
    rng = Random(f"{name} {seed}")
    for _ in range(share * times):
        text = damaged(rng, seeds)
        try:
            read(text, rng, place)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}\nof {text!r}") from error


@pytest.mark.parametrize("name", READERS)
def test_a_damaged_text_is_read_or_refused_in_words(name: str, tmp_path: Path) -> None:
    fuzz(name, 1, "share", tmp_path)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", READERS)
def test_long_a_damaged_text_is_read_or_refused_in_words(name: str, tmp_path: Path) -> None:
    fuzz(name, 50, os.environ.get("XCE_FUZZ_SEED", "long"), tmp_path)
