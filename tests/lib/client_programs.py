"""Programs that others wrote for LSF, run against a cluster of XCE, with their own interpreter."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from live import Live, open_live

PLACE = Path(__file__).resolve().parents[1] / "clients"
QUEUES = """\
- name: normal
  default: true
  priority: 30
  policy: fairshare
  fairshare:
    - {name: science, shares: 10, members: [{name: default}]}
"""
PATIENCE_S = 240


@contextlib.contextmanager
def open_cluster(environment: Path) -> Iterator[Live]:
    """Yield a cluster that is up, whose users have an environment's programs behind its own."""
    with open_live() as cluster:
        cluster.configure(QUEUES, "queues.yaml")
        cluster.xce("up", "--hosts", "n1,n2", "--slots", "4", "--mem", "4G")
        cluster.environ["PATH"] = f"{cluster.environ['PATH']}:{environment}/bin"
        cluster.environ["LSF_ENVDIR"] = str(cluster.root / "lsf" / "conf")
        yield cluster


def pinned(name: str) -> str:
    """Return the requirement of a client, with its version."""
    lines = (PLACE / "requirements.txt").read_text().splitlines()
    return next(line for line in lines if line.startswith(f"{name}=="))


def run(live: Live, words: list[str], place: Path, **variables: str) -> str:
    """Run a client's program; return what it printed."""
    done = subprocess.run(
        words,
        env={**live.environ, **variables},
        cwd=place,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{jobs(live)}"
    return done.stdout


def run_program(
    live: Live, environment: Path, name: str, *words: str, place: Path, **variables: str
) -> str:
    """Run one of the programs beside the tests with the clients' own interpreter."""
    program = str(PLACE / "programs" / f"{name}.py")
    return run(live, [f"{environment}/bin/python", program, *words], place, **variables)


def jobs(live: Live) -> str:
    """Return all jobs of the cluster, and what became of each."""
    listings = (["bjobs", "-a", "-w"], ["bhist", "-a", "-l"])
    return "\n".join(live.run(*words, status=None).stdout for words in listings)


def field(live: Live, name: str, wanted: str) -> list[str]:
    """Return a field of the jobs of this name, the first one first."""
    words = ["bjobs", "-a", "-noheader", "-o", name, "-J", wanted]
    return live.run(*words).stdout.split("\n")[:-1]
