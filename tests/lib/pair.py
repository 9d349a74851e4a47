"""Two controllers on one database: a live cluster whose controller has another one beside it."""

import contextlib
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from live import Live, open_live, until
from postgres import Postgres

from xce.daemon.paths import Layout, open_layout
from xce.journal.postgres_line import PostgresTarget
from xce.journal.postgres_reader import PostgresReader

LEASE_S = 4


class Pair:
    """A live cluster, and a controller with its scheduler in a second state directory.

    Args:
        live: The cluster; not up yet.
        second: The second directory.
        dsn: The database.
        lease_s: How long a lead lasts.
        with_history: Whether the history is there, too.
    """

    def __init__(
        self, live: Live, second: Path, dsn: str, lease_s: int, *, with_history: bool
    ) -> None:
        self.live = live
        self.dsn = dsn
        self.second: Layout = open_layout(second)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        live.configure(
            f"journal: {{postgres: '{dsn}', lease_s: {lease_s}}}\n"
            f"controllers: [{live.layout.controller_socket}, {self.second.controller_socket}]\n"
            + (f"history: {{postgres: '{dsn}'}}\n" if with_history else "")
        )

    def reader(self) -> PostgresReader:
        return PostgresReader(PostgresTarget(self.dsn))

    def epoch(self) -> int:
        """Return the number of the present reign."""
        with contextlib.closing(self.reader()) as reader:
            return reader.lead_epoch()

    def leader_pid(self) -> int:
        """Return the process that leads."""
        with contextlib.closing(self.reader()) as reader:
            return int(until(reader.holder, "somebody leads").rpartition(" ")[2])

    def configure_second(self) -> None:
        """Give the second directory the configuration of the first."""
        for path in self.live.layout.config.iterdir():
            shutil.copy(path, self.second.config / path.name)

    def start_second(self) -> None:
        """Start the second controller and its scheduler."""
        self.configure_second()
        for name in ("controller", "scheduler"):
            self.start(name)

    def start(self, name: str) -> None:
        with self.second.log_file(name).open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", f"xce.daemon.{name}", "--dir", self.second.root],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def process(self, name: str) -> subprocess.Popen[bytes]:
        return self._processes[name]

    def log(self, name: str) -> str:
        path = self.second.log_file(name)
        return path.read_text() if path.exists() else ""

    def until_second(self, event: str) -> None:
        until(lambda: f'"event": "{event}"' in self.log("controller"), f"the second says {event}")

    def close(self) -> None:
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)
                process.terminate()
        for process in self._processes.values():
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def open_pair(
    server: Postgres, database: str, *, lease_s: int = LEASE_S, with_history: bool = False
) -> Iterator[Pair]:
    """A pair that is not up yet, on a database of its own."""
    dsn = server.make_database(database)
    with open_pair_on(dsn, lease_s=lease_s, with_history=with_history) as pair:
        yield pair


@contextlib.contextmanager
def open_pair_on(dsn: str, *, lease_s: int = LEASE_S, with_history: bool = False) -> Iterator[Pair]:
    """A pair that is not up yet."""
    with open_live() as live:
        second = live.root.parent / "second"
        pair = Pair(live, second, dsn, lease_s, with_history=with_history)
        try:
            yield pair
        except BaseException:
            print(pair.log("controller")[-3000:], pair.log("scheduler")[-1000:])
            raise
        finally:
            pair.close()
