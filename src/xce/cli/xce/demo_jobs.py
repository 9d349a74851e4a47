"""The jobs of the demo: what is submitted, how it will end, what its output must say."""

import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

ARRAY_SIZE: Final = 1000
_SQUARES: Final = sum(number * number for number in range(1, ARRAY_SIZE + 1))
_SUBMITTED: Final = re.compile(r"Job <(\d+)> is submitted to .*queue <[^>]+>\.")
_BSUB_TIMEOUT_S: Final = 60.0

SCRIPTS: Final = {
    "tasks.sh": """\
#!/bin/sh
#BSUB -J parallel
#BSUB -n 4 -R "span[ptile=1]"
#BSUB -o parallel.%J
echo "4 tasks on $LSB_MCPU_HOSTS"
""",
    "square.sh": """\
#!/bin/sh
echo "square $LSB_JOBINDEX $((LSB_JOBINDEX * LSB_JOBINDEX))"
""",
    "sum.sh": """\
#!/bin/sh
cat squares/* | awk '
    $1 == "square" { sum += $3; count++ }
    END { printf "%d squares, sum %d\\n", count, sum }'
""",
}


class SubmitError(Exception):
    """A job could not be submitted."""


class DemoJob:
    """A job of the demo, as announced and as it is."""

    def __init__(
        self, name: str, jobid: int, *, expected: str, check: Callable[["DemoJob"], str]
    ) -> None:
        self.name = name
        self.jobid = jobid
        self.expected = expected
        """``DONE``, ``EXIT <code>`` or ``PEND``."""
        self.check = check
        """Returns what is wrong with its output, or nothing; sets ``said``."""
        self.row: dict[str, Any] = {}
        self.said = ""

    @property
    def is_array(self) -> bool:
        """Whether it is the job array."""
        return self.name == "array"


def kill_leftovers(environ: Mapping[str, str]) -> None:
    """End what an earlier demo has left pending."""
    for name in ("too-large",):
        subprocess.run(
            ["bkill", "-J", name, "0"],
            env=environ,
            capture_output=True,
            timeout=_BSUB_TIMEOUT_S,
            check=False,  # there need not be any
        )


def submit_all(results: Path, environ: Mapping[str, str], jobs: list[DemoJob]) -> None:
    """Submit all jobs; each is added to ``jobs`` as it is accepted.

    Raises:
        SubmitError: bsub refused one; the message is what it printed.
    """
    for name, text in SCRIPTS.items():
        (results / name).write_text(text)
        (results / name).chmod(0o755)
    (results / "squares").mkdir()

    def submit(name: str, words: list[str], expected: str, *wanted: str, stdin: str = "") -> int:
        def accept(jobid: int) -> None:
            check = _output_check(results / f"{name}.{jobid}", wanted)
            jobs.append(DemoJob(name, jobid, expected=expected, check=check))

        return _submit(words, results, environ, stdin, accept)

    submit("hello", _named("hello", 'echo "hello from $LSB_HOSTS"'), "DONE", "hello from demo")
    submit("parallel", ["<", "tasks.sh"], "DONE", "4 tasks on demo", stdin="tasks.sh")
    words = ["-J", f"array[1-{ARRAY_SIZE}]", "-o", "squares/%I", "./square.sh"]
    array = submit("array", words, "DONE")
    jobs[-1].check = _count_check(results / "squares")
    submit(
        "sum",
        ["-w", f"done({array})", *_named("sum", "./sum.sh")],
        "DONE",
        f"{ARRAY_SIZE} squares, sum {_SQUARES}",
    )
    first = submit("first", _named("first", "seq 1 10 > numbers; wc -l < numbers"), "DONE", "10")
    second = submit(
        "second",
        ["-w", f"done({first})", *_named("second", "sort -rn numbers > sorted; cat sorted")],
        "DONE",
        "9",
    )
    submit("third", ["-w", f"done({second})", *_named("third", "head -n 1 sorted")], "DONE", "10")
    submit("failing", _named("failing", "echo I shall fail; exit 3"), "EXIT 3", "I shall fail")
    submit("too-large", ["-n", "1000", *_named("too-large", "true")], "PEND")


def _named(name: str, command: str) -> list[str]:
    return ["-J", name, "-o", f"{name}.%J", command]


def _submit(
    words: list[str],
    results: Path,
    environ: Mapping[str, str],
    stdin: str,
    accept: Callable[[int], None],
) -> int:
    """Run bsub as a person would, in the results directory; return the job id.

    ``accept`` is called with it, also when an interrupt comes while bsub runs: a job that was
    accepted is known, and can be ended.
    """
    shown = " ".join(f"'{word}'" if re.search(r"[\s$>\[(]", word) else word for word in words)
    print(f"    bsub {shown if not stdin else '< ' + stdin}", flush=True)
    bsub = subprocess.Popen(
        ["bsub", *words] if not stdin else ["bsub"],
        cwd=results,
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # the terminal's interrupt is ours alone
    )
    text = (results / stdin).read_text() if stdin else ""
    try:
        said, complaint = bsub.communicate(text, timeout=_BSUB_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        bsub.kill()
        bsub.communicate()
        raise SubmitError(f"bsub has not ended in {_BSUB_TIMEOUT_S:.0f} s") from None
    except KeyboardInterrupt:
        said, _ = bsub.communicate(timeout=_BSUB_TIMEOUT_S)
        match = _SUBMITTED.search(said)
        if match is not None:
            accept(int(match[1]))
        raise
    match = _SUBMITTED.search(said)
    for line in filter(None, (said + complaint).splitlines()):
        print(f"        {line}")
    if bsub.returncode != 0 or match is None:
        raise SubmitError(f"bsub ended with exit code {bsub.returncode}")
    accept(int(match[1]))
    return int(match[1])


def _output_check(path: Path, wanted: tuple[str, ...]) -> Callable[[DemoJob], str]:
    """Return the check that an output file holds a line that begins with what is wanted."""

    def check(job: DemoJob) -> str:
        if not wanted:
            return ""
        try:
            lines = path.read_text().splitlines()
        except OSError as error:
            return f"no output {path}: {error.strerror}"
        for line in lines:
            if line.strip().startswith(wanted[0]):
                job.said = line.strip()
                return ""
        return f"{path} has no line '{wanted[0]} ...'"

    return check


def _count_check(directory: Path) -> Callable[[DemoJob], str]:
    """Return the check that every element has left a file."""

    def check(job: DemoJob) -> str:
        count = sum(1 for _ in directory.iterdir())
        job.said = f"{count} files in {directory.name}/"
        return "" if count == ARRAY_SIZE else f"{count} files instead of {ARRAY_SIZE}"

    return check
