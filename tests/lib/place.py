"""A state directory of a test, with the commands that act on it."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from xce.cli.xce.down import find_shepherds
from xce.cli.xce.launchers import store_launchers
from xce.daemon.components import find_daemons
from xce.daemon.paths import find_layout


class Place:
    """A state directory and the commands that act on it."""

    def __init__(self, root: Path, home: Path) -> None:
        self.root = root
        self.home = home
        launchers = store_launchers(root)
        self.environ = {
            **os.environ,
            "PATH": f"{launchers}:{os.environ['PATH']}",
            "XCE_DIR": str(root),
            "XCE_WAIT_DAEMON": "20",
        }

    def run(self, *words: str, status: int | None = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            words,
            env=self.environ,
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        if status is not None:
            assert done.returncode == status, done.stdout + done.stderr
        return done

    def xce(self, *words: str, status: int | None = 0) -> str:
        done = self.run(sys.executable, "-m", "xce.cli.xce.main", *words, status=status)
        return done.stdout + done.stderr

    def admin(self, *words: str, status: int | None = 0) -> str:
        done = self.run("xceadmin", *words, status=status)
        return done.stdout + done.stderr

    def submit(self, *words: str) -> str:
        return self.run("bsub", *words).stdout.split("<")[1].split(">")[0]

    def stat(self, job: str) -> str:
        return self.run("bjobs", "-noheader", "-o", "stat", job).stdout.strip()

    def until_stat(self, job: str, *wanted: str) -> None:
        until(lambda: self.stat(job) in wanted, what=f"job {job} {wanted}")


def until(look: Callable[[], object], *, what: str) -> None:
    deadline = time.monotonic() + 40
    while not look():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def make_place(tmp_path: Path, name: str) -> Iterator[Place]:
    root = tmp_path / name
    root.mkdir(parents=True)
    place = Place(root, tmp_path)
    yield place
    place.xce("down", "--jobs", status=None)
    for process in [*find_daemons(root).values(), *find_shepherds(find_layout(root))]:
        os.kill(process.pid, signal.SIGKILL)
    if (root / "run").is_symlink():
        shutil.rmtree(find_layout(root).run, ignore_errors=True)
