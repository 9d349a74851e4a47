"""Real clusters to which things happen: on one machine, in network namespaces, on a database."""

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import netns
from crash_run import Killer, Plan
from live import Live, open_live, until
from other_user import IS_ROOT
from pair import Pair, open_pair_on
from postgres import Postgres, find_binaries, open_directory, open_postgres
from site_of_hosts import Site, open_site

from xce.client.rest import ProblemError, UnreachableError
from xce.daemon.processes import each_command_line, identify, send_signal

MIB = 1024 * 1024
HOSTS = ("h1", "h2", "h3")
SETTINGS = "kill_interval_s: 1\n"
NET_SETTINGS = (
    f"{SETTINGS}heartbeat_s: 1\nhost_grace_s: 9\nself_fence: true\nfence_after_s: 6\n"
    "settle_max_s: 10\n"
)
LEASE_S = 3


class Rig:
    """A cluster that is up, and what can happen to it.

    Args:
        live: The cluster.
        rng: Its dice.
    """

    name = ""
    loses_hosts = False

    def __init__(self, live: Live, rng: random.Random) -> None:
        self.live = live
        self.rng = rng
        self.acts: dict[str, int] = {}
        """How often each thing happened."""

    def kinds(self) -> list[tuple[str, Callable[[], None]]]:
        """Return what may happen; what is named twice happens more often."""
        raise NotImplementedError

    def act(self) -> None:
        """Let something happen, or wait a little."""
        time.sleep(self.rng.uniform(0.2, 1.0))
        name, do = self.rng.choice(self.kinds())
        self.acts[name] = self.acts.get(name, 0) + 1
        do()

    def heal(self) -> None:
        """Let everything be whole again."""
        until(self.is_whole, "the cluster is whole", patience_s=360, pause_s=0.2)

    def is_whole(self) -> bool:
        """Whether the cluster answers and every host has joined."""
        try:
            with self.live.api(wait_s=0) as api:
                hosts = api.call("GET", "/hosts")["hosts"]
        except (UnreachableError, ProblemError):
            return False
        return bool(hosts) and all(host["status"] != "unavail" for host in hosts)

    def kill(self, kind: str) -> None:
        """Kill the daemons of a kind."""
        for process in self.live.victims(kind).values():
            send_signal(process, signal.SIGKILL)

    def hold(self, kind: str, span_s: float) -> None:
        """Let the daemons of a kind stand still for a while."""
        held = list(self.live.victims(kind).values())
        for process in held:
            send_signal(process, signal.SIGSTOP)
        time.sleep(span_s)
        for process in held:
            send_signal(process, signal.SIGCONT)


class LocalRig(Rig):
    """One machine: every daemon is killed and held up, and the journal's disk runs full."""

    name = "local"

    def __init__(self, live: Live, rng: random.Random, disk: Path | None) -> None:
        super().__init__(live, rng)
        self._disk = disk
        self._killer = Killer(live, Plan(seed=rng.randrange(1 << 30), elements=0))

    def kinds(self) -> list[tuple[str, Callable[[], None]]]:
        kinds = [("kill or hold a daemon", self._killer.step)] * 6
        return [*kinds, ("disk full", self._fill)] if self._disk else kinds

    def _fill(self) -> None:
        assert self._disk is not None
        ballast = self._disk / "ballast"
        with contextlib.suppress(OSError), ballast.open("ab", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        time.sleep(self.rng.uniform(0.5, 3))
        ballast.unlink()

    def heal(self) -> None:
        self._killer.close()
        super().heal()


class NetRig(Rig):
    """Hosts in network namespaces: cables are pulled, for less and for more than the grace."""

    name = "net"
    loses_hosts = True

    def __init__(self, site: Site, rng: random.Random) -> None:
        super().__init__(site.live, rng)
        self.site = site
        self._may_lose = True

    def kinds(self) -> list[tuple[str, Callable[[], None]]]:
        found = [
            ("cut", self._cut_shortly),
            ("cut", self._cut_shortly),
            ("kill controller", lambda: self.kill("controller")),
            ("kill scheduler", lambda: self.kill("scheduler")),
            ("kill apiserver", lambda: self.kill("apiserver")),
            ("kill worker", self._kill_worker),
            ("kill shepherd", self._kill_shepherd),
            ("hold controller", lambda: self.hold("controller", self.rng.uniform(0.3, 3))),
        ]
        return [*found, ("lose host", self._lose)] if self._may_lose else found

    def _cut(self, span_s: float) -> None:
        host = self.rng.choice(HOSTS)
        self.site.net.cut(host)
        time.sleep(span_s)
        self.site.net.heal(host)

    def _cut_shortly(self) -> None:
        self._cut(self.rng.uniform(0.5, 4))

    def _lose(self) -> None:
        self._may_lose = False
        self._cut(14)

    def _kill_worker(self) -> None:
        host = self.rng.choice(HOSTS)
        self.site.kill_worker(host)
        self.site.start_worker(host)

    def _kill_shepherd(self) -> None:
        runs = self.site.directory(self.rng.choice(HOSTS)) / "hosts"
        for pid, words in each_command_line(os.geteuid()):
            process = identify(pid)
            is_shepherd = any("/worker/shepherd/" in word for word in words)
            if process is not None and is_shepherd and any(str(runs) in word for word in words):
                send_signal(process, signal.SIGKILL)


class DatabaseRig(Rig):
    """Two controllers on a database that has a standby of its own, which takes over once."""

    name = "database"

    def __init__(
        self, pair: Pair, primary: Postgres, standby: Postgres, rng: random.Random
    ) -> None:
        super().__init__(pair.live, rng)
        self.pair = pair
        self._primary = primary
        self._standby = standby
        self._has_failed_over = False

    def kinds(self) -> list[tuple[str, Callable[[], None]]]:
        found = [
            ("kill leader", self._kill_leader),
            ("kill leader", self._kill_leader),
            ("hold leader", self._hold_leader),
            ("kill scheduler", lambda: self.kill("scheduler")),
            ("kill apiserver", lambda: self.kill("apiserver")),
            ("kill worker", lambda: self.kill("worker")),
            ("kill shepherd", lambda: self.kill("shepherd")),
        ]
        return found if self._has_failed_over else [*found, ("promote", self._fail_over)]

    def _kill_leader(self) -> None:
        with contextlib.suppress(ProcessLookupError, AssertionError):
            os.kill(self.pair.leader_pid(), signal.SIGKILL)
        self._see_to_second()

    def _hold_leader(self) -> None:
        with contextlib.suppress(ProcessLookupError, AssertionError):
            pid = self.pair.leader_pid()
            os.kill(pid, signal.SIGSTOP)
            time.sleep(self.rng.uniform(0.5, 2 * LEASE_S))
            os.kill(pid, signal.SIGCONT)
        self._see_to_second()

    def _see_to_second(self) -> None:
        for name in ("controller", "scheduler"):
            if self.pair.process(name).poll() is not None:
                self.pair.start(name)

    def _fail_over(self) -> None:
        self._has_failed_over = True
        self._primary.stop(signal.SIGKILL)
        time.sleep(self.rng.uniform(0.2, 2))
        self._standby.promote()

    def heal(self) -> None:
        self._see_to_second()
        super().heal()


@contextlib.contextmanager
def open_local(rng: random.Random) -> Iterator[Rig]:
    """A cluster on one machine."""
    with open_live() as live, contextlib.ExitStack() as stack:
        live.configure(SETTINGS)
        disk = mount_small(live.layout.journal, 24 * MIB) if IS_ROOT else None
        if disk is not None:
            stack.callback(subprocess.run, ["umount", "-l", str(disk)], check=False)
        live.xce("up", "--hosts", "h[1-3]", "--slots", "8")
        yield LocalRig(live, rng, disk)


def mount_small(place: Path, size: int) -> Path | None:
    """Mount a small file system; return where, or None if that may not be done here."""
    place.mkdir(parents=True, exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", str(place)]
    return (
        place if subprocess.run(words, check=False, capture_output=True).returncode == 0 else None
    )


@contextlib.contextmanager
def open_net_rig(rng: random.Random) -> Iterator[Rig]:
    """Hosts in network namespaces."""
    with open_site(*HOSTS) as site:
        live = site.live
        live.xceadmin(
            "init", "--listen", str(site.address), "--hosts", "h[1-3]", "--cluster", "net"
        )
        live.configure(NET_SETTINGS)
        (live.layout.config / "hosts.yaml").write_text('- {names: "h[1-3]", slots: 8}\n')
        live.xce("up")
        for host in HOSTS:
            token = live.root.parent / f"{host}.token"
            live.xceadmin("keys", "token", host, "--out", str(token))
            site.start_worker(host, "--enrol", str(token), "--connect", str(site.address))
        rig = NetRig(site, rng)
        rig.heal()
        yield rig


@contextlib.contextmanager
def open_database_rig(rng: random.Random) -> Iterator[Rig]:
    """Two controllers, and a database with a synchronous standby."""
    with open_postgres() as primary, open_directory() as place:
        standby = Postgres(place, primary.binaries)
        standby.copy_from(primary, "s2")
        primary.set("synchronous_standby_names", "s2")
        primary.reload()
        standby.start()
        primary.make_database("chaos")
        both = f"postgresql://xce@/chaos?host={primary.directory},{standby.directory}"
        try:
            with open_pair_on(both, lease_s=LEASE_S) as pair:
                pair.live.configure(SETTINGS)
                pair.live.xce("up", "--hosts", "h[1-3]", "--slots", "8", "--timeout", "60")
                pair.start_second()
                pair.until_second("standby-warm")
                yield DatabaseRig(pair, primary, standby, rng)
        finally:
            standby.stop(signal.SIGKILL)


def rigs() -> dict[str, Callable[[random.Random], contextlib.AbstractContextManager[Rig]]]:
    """Return what can be had here, by name."""
    found = {LocalRig.name: open_local}
    if not netns.why_not():
        found[NetRig.name] = open_net_rig
    if find_binaries() is not None:
        found[DatabaseRig.name] = open_database_rig
    return found
