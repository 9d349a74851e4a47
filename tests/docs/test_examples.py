"""Every shell example of the documents that says so is run, in order, against a real cluster.

A block marked ``<!-- run -->`` must end with exit status 0; ``<!-- run expect: PATTERN -->`` must
also print something that matches. All blocks of a page run in one shell, with a directory and a
cluster of its own. ``<!-- setup: COMMAND -->`` is run first and is not shown to readers.
"""

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from xce.cli.xce.launchers import store_launchers

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])
BLOCK = re.compile(
    r"<!-- run(?: expect: (?P<expect>[^\n]*?))? -->\n"
    r"(?:```bash\n(?P<text>.*?)```|\n(?P<indented>(?:    [^\n]*\n)+))",
    re.DOTALL,
)
SHELL = re.compile(
    r"(?P<mark><!-- (?:run|several hosts)[^\n]*-->\n)?```bash\n(?P<text>.*?)```", re.DOTALL
)
NOT_RUN = ("make ", "git ", 'eval "$(/opt/')
"""How lines begin that only a clone, or root for others, can try. What needs several hosts is
marked as such and tried in ``tests/e2e/security``.
"""
SETUP = re.compile(r"<!-- setup: ([^\n]*?) -->")
PAGE_TIMEOUT_S = 240


class Example(NamedTuple):
    line: int
    expect: str
    text: str


def examples(page: Path) -> list[Example]:
    text = page.read_text(encoding="utf-8")
    return [
        Example(
            text.count("\n", 0, match.start()) + 1,
            match["expect"] or "",
            match["text"] or textwrap.dedent(match["indented"]),
        )
        for match in BLOCK.finditer(text)
    ]


def render_script(page: Path) -> str:
    """Return one shell script for all examples of a page; the output of each is a file."""
    parts = ["set -eo pipefail"]
    parts += [f"{{ {command}\n}} >setup.out 2>&1" for command in SETUP.findall(page.read_text())]
    for number, example in enumerate(examples(page)):
        parts.append(f"echo {number} >running\n{{\n{example.text}\n}} >{number}.out 2>&1")
    parts.append("echo all >running")
    return "\n".join(parts) + "\n"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """An empty directory; whatever cluster is started there is ended behind the test."""
    (tmp_path / ".venv").symlink_to(sys.prefix)
    yield tmp_path
    state = str(tmp_path / "state")
    words = [sys.executable, "-m", "xce.cli.xce.main", "down", "--jobs", "--dir", state]
    subprocess.run(words, check=False, timeout=120, capture_output=True)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if examples(page)], ids=lambda page: page.name
)
def test_the_examples_of_a_page_do_what_it_says(page: Path, place: Path) -> None:
    state = place / "state"
    state.mkdir()
    environ = {
        **os.environ,
        "PATH": f"{store_launchers(state)}:{os.environ['PATH']}",
        "XCE_DIR": str(state),
        "HOME": str(place),
        "USER": os.environ.get("USER", "root"),
        "EXAMPLES": str(ROOT / "examples"),
    }
    done = subprocess.run(
        ["bash", "-c", render_script(page)],
        cwd=place,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PAGE_TIMEOUT_S,
        check=False,
    )
    running = (place / "running").read_text().strip() if (place / "running").exists() else "setup"
    if running != "all":
        output = (place / f"{running}.out").read_text()
        line = examples(page)[int(running)].line if running.isdigit() else 0
        pytest.fail(f"{page.name}:{line} ended with {done.returncode}:\n{output}{done.stderr}")
    for number, example in enumerate(examples(page)):
        output = (place / f"{number}.out").read_text()
        assert re.search(example.expect, output), f"{page.name}:{example.line}:\n{output}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_can_be_run_is_run(page: Path) -> None:
    idle = [
        line
        for match in SHELL.finditer(page.read_text(encoding="utf-8"))
        if match["mark"] is None
        for line in match["text"].splitlines()
        if not line.startswith(NOT_RUN)
    ]
    assert idle == []


def test_there_are_examples() -> None:
    assert sum(len(examples(page)) for page in PAGES) > 12
    assert examples(ROOT / "README.md")
