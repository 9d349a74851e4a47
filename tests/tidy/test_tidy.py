"""Rules of this repository that no ready-made linter checks; each complaint says what to do."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "xce"
CORE = ("model", "resreq", "config", "state", "sched", "policies", "control")
FILE_LINES_MAX, FUNCTION_LINES_MAX = 500, 60
VAGUE = {"manager", "helper", "helpers", "util", "utils", "misc", "common", "info", "data"}
NAMED_IN_THE_DESIGN = {"node_manager"}
MANY, ONE = {"hosts", "jobs"}, {"host", "job"}
TODO = re.compile(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))")

FILES = sorted(SOURCE.rglob("*.py"))
OTHERS = sorted(
    path
    for place in ("tests", "bench", "examples", "scripts")
    for path in (ROOT / place).rglob("*.py")
    if path.name != "test_tidy.py"  # it quotes what it forbids
)


def complaints(text: str, *, package: str, stem: str) -> Iterator[str]:
    """Yield what is untidy in a file."""
    if text.count("\n") > FILE_LINES_MAX:
        yield f"more than {FILE_LINES_MAX} lines: split it by noun, not by size"
    if stem not in NAMED_IN_THE_DESIGN and VAGUE & set(stem.split("_")):
        yield "the file name says nothing: name what it is about"
    for number, line in enumerate(text.splitlines(), start=1):
        if TODO.search(line):
            yield f"line {number}: a TODO needs its issue: TODO(#12): ..."
    for node in ast.walk(ast.parse(text)):
        yield from _of_any(node)
        if package in CORE:
            yield from _of_the_core(node)
        if package == "sched":
            yield from _of_the_scheduler(node)


def _of_any(node: ast.AST) -> Iterator[str]:
    match node:
        case (
            ast.FunctionDef(name=name, lineno=first, end_lineno=int(last))
            | ast.AsyncFunctionDef(name=name, lineno=first, end_lineno=int(last))
        ) if last - first >= FUNCTION_LINES_MAX:
            yield f"line {first}: {name}() has more than {FUNCTION_LINES_MAX} lines"
        case ast.ImportFrom(level=level, lineno=line) if level:
            yield f"line {line}: no relative imports"


def _of_the_core(node: ast.AST) -> Iterator[str]:
    match node:
        case (
            ast.For(iter=ast.Set() | ast.SetComp(), lineno=line)
            | ast.comprehension(iter=ast.Set(lineno=line) | ast.SetComp(lineno=line))
        ):
            yield f"line {line}: the order of a set is not ours: sort it"
        case ast.Name(id="float", lineno=line):
            yield f"line {line}: no floats in the core: count in base units"


def _of_the_scheduler(node: ast.AST) -> Iterator[str]:
    """A session touches hosts and jobs as columns; a Python loop over them is a defect."""
    match node:
        case ast.For(iter=source, target=target) | ast.comprehension(iter=source, target=target):
            for name in (*_names_in(source), *_names_in(target)):
                words = name.lower().split("_")
                if MANY & set(words) or words[-1] in ONE:
                    yield f"line {source.lineno}: no loop over {name}: use the columns"


def _names_in(source: ast.expr) -> Iterator[str]:
    """Yield the names that stand in an expression."""
    for node in ast.walk(source):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                yield name


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_is_tidy(path: Path) -> None:
    package = path.relative_to(SOURCE).parts[0]
    text = path.read_text(encoding="utf-8")
    assert list(complaints(text, package=package, stem=path.stem)) == []


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_no_part_of_the_package_is_tidy_too(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert list(complaints(text, package="", stem=path.stem.removeprefix("test_"))) == []


@pytest.mark.parametrize(
    ("text", "package", "stem"),
    [
        ("x = 1\n" * 501, "net", "frame"),
        ("def f():\n" + "    x = 1\n" * 60, "net", "frame"),
        ("async def f():\n" + "    x = 1\n" * 60, "net", "frame"),
        ("", "net", "host_utils"),
        ("# TODO: later", "net", "frame"),
        ("from . import x", "net", "frame"),
        ("for a in {1, 2}: pass", "model", "ids"),
        ("x = [a for a in {1, 2}]", "model", "ids"),
        ("x: float = 1", "model", "ids"),
        ("for host in hosts: pass", "sched", "session"),
        ("x = [job for job in view.pending_jobs]", "sched", "session"),
        ("x = {h: 1 for h in self._hosts.values()}", "sched", "session"),
        ("for i in range(len(columns.hosts)): pass", "sched", "session"),
        ("any(x for x in enumerate(all_jobs))", "sched", "session"),
        ("for row, host in enumerate(rows): pass", "sched", "session"),
    ],
)
def test_the_checker_finds_what_it_forbids(text: str, package: str, stem: str) -> None:
    assert list(complaints(text, package=package, stem=stem))


@pytest.mark.parametrize(
    ("text", "package"),
    [
        ("for request_class in classes: pass", "sched"),
        ("for item in reason.host_reasons: pass", "sched"),
        ("for host in hosts: pass", "control"),
        ("for a in sorted({1, 2}): pass", "model"),
        ("x: float = 1", "net"),
        ("# TODO(#12): later", "net"),
    ],
)
def test_the_checker_lets_the_rest_be(text: str, package: str) -> None:
    assert list(complaints(text, package=package, stem="session")) == []
