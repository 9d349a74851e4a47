"""Transcripts: a script of commands, run against a live cluster, and what they printed.

A script is read line by line:

* ``# text``        goes into the transcript as it is;
* ``$ command``     is run by /bin/sh; the transcript shows what it printed and how it ended;
* ``% command``     is run, too, and must end with 0; the transcript does not show it;
* ``> more``        goes on with the command above.

``$J`` is the id of the job that was submitted last.

In the transcript a line of stdout stands behind two blanks, one of stderr behind ``! ``, an exit
status other than 0 behind ``? ``. Each command has a shell of its own, in the same directory, with
the functions of ``prelude.sh``. What differs from run to run is replaced as `RULES` say.
"""

import os
import pwd
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

COMMAND_S: Final = 120
_DAY = r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)"
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"

RULES: Final[tuple[tuple[str, str], ...]] = (
    # bjobs -l cuts lines after 79 characters, wherever a path ends; clients join them so, too.
    (r"\n {21}(?=\S| \S)(?!PGID|MEM:)", ""),
    # instants
    (rf"{_DAY} {_MONTH} [ \d]\d \d\d:\d\d:\d\d(?: \d{{4}})?", "DATE"),
    (rf"{_MONTH} [ \d]\d \d\d:\d\d\b", "DATE"),
    (r"\b\d\d/\d\d-\d\d:\d\d:\d\d\b", "DATE"),
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?Z?", "DATE"),
    (r"DATE \((?:in [\ddhms ]+|overdue)\)", "DATE (THEN)"),
    (r"\b1[6-9]\d{8}(?:\.\d+|\d{6})?\b", "EPOCH"),
    (r'("ineligible_s":) \d+\.\d+', r"\1 N"),
    (r"(ligible pending time \(seconds\):) +\d+", r"\1 N"),
    # what a job used
    (r"\b\d{3}:\d\d:\d\d\.\d\d\b", "CPU"),
    # The host may not have said yet what it uses.
    (r"(\bCPU )(?:\d+ +\d+|- +-) +\d+(?:,\d+)* *", r"\1MEM SWAP PIDS "),
    (r"(CPU time used is )[\d.]+", r"\1N"),
    (r"((?:CPU|Run|Turnaround) time : +)[\d.]+", r"\1N"),
    (r"((?:Max|Average) (?:Memory|Processes|Threads) : +)(?:[\d.]+( MB)?|-)", r"\1N\2"),
    (r"(MAX MEM: |MEM: )\d+", r"\1N"),
    (r"PGID: \d+;  PIDs: [\d ]+", "PGID: N;  PIDs: N"),
    (r"(LS_JOBPID=)\d+", r"\1N"),
    (r"(XCE_JOB_HOST_DIR=).*", r"\1DIRECTORY"),
    (r"(XCE_ATTEMPT_MARK=\d+\.\d+\.\d+\.)[0-9a-f]+", r"\1N"),
    (r"(?<=  )(?:\d+m )?\d{1,2}s(?=  |$)", "Ns"),
    # the machine and the release
    (r"/tmp/xce-\d+-[0-9a-f]+/", "/here/state/run/"),
    (r"\b(?:root: setuid|user: (?:sessions|cgroup)).*?(?=  |\"|$)", "ISOLATION"),
    (r"\bXCE \d+\.\d+\.\d+\b", "XCE VERSION"),
)
"""Pattern and what stands for it, one after the other, on all that a command printed."""
OWN_RULES: Final[tuple[tuple[str, str], ...]] = (
    (r"(?<=\S) {3,}", "  "),
    (r"\d+  ISOLATION", "N  ISOLATION"),
)
"""The same for XCE's own commands: their columns are as wide as what stands in them."""


class Names(NamedTuple):
    """Names that differ from machine to machine, and what stands for them."""

    user: str
    machine: str

    def replace(self, text: str) -> str:
        """Return a text with words for the names; columns of LSF's tables stay where they are.

        The kept text is treated alike: a user may be called like a word that stands in it.
        What a slow start tells of its progress is left out.
        """
        text = re.sub(r"(?m)^.*starting: \d+ of \S+ daemons run\n", "", text)
        for name, word, width in ((self.user, "USER", 7), (self.machine, "MACHINE", 11)):
            for form in sorted({name, name[:width]}, key=len, reverse=True):
                text = _replace_name(text, form, word, width)
            if len(name) >= width:
                # It fills its column: one blank behind it may be the column's or a sentence's.
                text = re.sub(rf"\b{word} +", f"{word} ", text)
        return text


def _replace_name(text: str, name: str, word: str, width: int) -> str:
    def put(match: re.Match[str]) -> str:
        room = len(match[0])
        if room <= max(len(name), width):
            return word + " " * (room - len(name))
        return word.ljust(width) + " " * (room - max(len(name), width))

    return re.sub(rf"(?<![\w./-]){re.escape(name)}(?![\w./-]) *", put, text)


class Step(NamedTuple):
    """A line of a script."""

    kind: str
    text: str
    line: int


def read_script(path: Path) -> Iterator[Step]:
    """Yield the steps of a script."""
    step: Step | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("> ") or line == ">":
            assert step is not None, f"{path.name}:{number}"
            step = step._replace(text=f"{step.text}\n{line[2:]}")
            continue
        if step is not None:
            yield step
        if line.startswith(("$ ", "% ")):
            step = Step(line[0], line[2:], number)
        else:
            assert not line or line.startswith("#"), f"{path.name}:{number}: {line}"
            step = Step("#", line, number)
    if step is not None:
        yield step


class Stage:
    """Where a script is played: a directory that is the user's home, and a cluster below it."""

    def __init__(self, home: Path, prelude: Path) -> None:
        self.home = home
        self.state = home / "state"
        self.state.mkdir()
        self._prelude = prelude
        self.names = Names(pwd.getpwuid(os.getuid()).pw_name, os.uname().nodename)
        self.environ = {
            "HOME": str(home),
            "LC_ALL": "C.UTF-8",
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "PYTHON": os.path.realpath(sys.executable),
            "TZ": "UTC",
            "XCE_DIR": str(self.state),
            "XCE_WAIT_DAEMON": "20",
            "XDG_RUNTIME_DIR": str(home / "state"),
        }
        exports = self.xce("env")
        found = re.search(r"^export PATH=(.*):\"\$PATH\"$", exports, re.MULTILINE)
        assert found is not None, exports
        self.environ["PATH"] = f"{found[1]}:{self.environ['PATH']}"

    def xce(self, *words: str) -> str:
        line = [sys.executable, "-m", "xce.cli.xce.main", *words]
        done = subprocess.run(
            line, env=self.environ, capture_output=True, text=True, timeout=120, check=False
        )
        return done.stdout + done.stderr

    def run(self, command: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            ["/bin/sh", "-c", f'. "$0"\n{command}', str(self._prelude)],
            env=self.environ,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=COMMAND_S,
            check=False,
        )

    def play(self, script: Path) -> str:
        """Run a script and return the transcript."""
        blocks = []
        for step in read_script(script):
            if step.kind == "#":
                blocks.append(step.text)
                continue
            done = self.run(step.text)
            submitted = re.findall(rb"^(?:J|j)ob <?(\d+)>? is submitted", done.stdout, re.MULTILINE)
            if submitted:
                self.environ["J"] = submitted[-1].decode()
            own = re.match(r"\(?(?:xce|xcecli|xceadmin)\b[^|]*$", step.text) is not None
            shown = self._render(done, OWN_RULES if own else ())
            if step.kind == "$":
                blocks.append("$ " + step.text.replace("\n", "\n> ") + shown)
            else:
                assert done.returncode == 0, f"{script.name}:{step.line}: {step.text}\n{shown}"
        return "\n".join(blocks).rstrip("\n") + "\n"

    def _render(
        self, done: subprocess.CompletedProcess[bytes], rules: tuple[tuple[str, str], ...]
    ) -> str:
        parts = [*self._lines(done.stdout, "  ", rules), *self._lines(done.stderr, "! ", rules)]
        parts += [f"? {done.returncode}"] if done.returncode else []
        return "".join(f"\n{part.rstrip()}" for part in parts)

    def _lines(self, content: bytes, mark: str, rules: tuple[tuple[str, str], ...]) -> list[str]:
        text = self.normalise(content.decode("utf-8", "backslashreplace"), rules)
        lines = text.split("\n")
        last = lines.pop()
        if last:
            lines.append(f"{last}\\ no newline")
        return [f"{mark}{line}" for line in lines]

    def normalise(self, text: str, rules: tuple[tuple[str, str], ...] = ()) -> str:
        """Return a text with words in place of what differs from run to run."""
        text = _each_control(text)
        for pattern, word in RULES:
            text = re.sub(pattern, word, text, flags=re.MULTILINE)
        text = text.replace(str(self.home), "/here")
        text = text.replace(f"<{pwd.getpwuid(os.getuid()).pw_dir}>", "</home/user>")
        text = text.replace(f"{sys.prefix}/bin", "/venv/bin")
        text = self.names.replace(text)
        for pattern, word in rules:
            text = re.sub(pattern, word, text, flags=re.MULTILINE)
        return text


def _each_control(text: str) -> str:
    """Return a text whose control characters can be read."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", lambda match: f"\\x{ord(match[0]):02x}", text)
