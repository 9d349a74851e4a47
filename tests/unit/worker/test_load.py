import os
import struct
from pathlib import Path

import pytest

from xce.model.ids import SECOND_US
from xce.model.load import INDICES, UNKNOWN
from xce.worker.load import LOOK_US, LoadMeter, Sources, parse_counted, parse_logins, parse_sizes

STAT = "cpu  {busy} 0 0 {idle} 0 0 0 0 {guest} 0\ncpu0 1 2 3\n"
VMSTAT = "pgpgin {moved}\npgpgout 0\npswpin {swapped}\npswpout 5\n"
WALL_S = 1_000_000.0


class Machine:
    """A directory that looks like one."""

    def __init__(self, root: Path) -> None:
        self.root, self.now_us = root, 0
        for name in ("proc", "dev/pts", "tmp"):
            (root / name).mkdir(parents=True)
        self.write("proc/loadavg", "2.00 1.50 0.75 5/300 12345\n")
        self.write("proc/uptime", "7265.00 100.00\n")
        self.write("proc/meminfo", "MemTotal: 9 kB\nMemAvailable: 2097152 kB\nSwapFree: 1023 kB\n")
        self.count(busy=0, idle=0)
        self.meter = LoadMeter(
            lambda: self.now_us,
            lambda: WALL_S,
            Sources(root / "proc", root / "utmp", root / "dev", root / "tmp"),
        )

    def write(self, name: str, text: str) -> None:
        (self.root / name).write_text(text, encoding="ascii")

    def count(self, *, busy: int, idle: int, moved: int = 0, swapped: int = 0) -> None:
        self.write("proc/stat", STAT.format(busy=busy, idle=idle, guest=busy))
        self.write("proc/vmstat", VMSTAT.format(moved=moved, swapped=swapped))

    def log_in(self, *logins: tuple[str, str, float]) -> None:
        content = b""
        for user, line, idle_s in logins:
            terminal = self.root / "dev" / line
            terminal.touch()
            os.utime(terminal, (WALL_S - idle_s, WALL_S - idle_s))
            content += login(7, user, line)
        (self.root / "utmp").write_bytes(content + login(8, "gone", "pts/9"))

    def look(self) -> dict[str, float]:
        sample = self.meter.look()
        values = dict(zip(INDICES, sample, strict=True))
        return {name: value / 1000 for name, value in values.items() if value != UNKNOWN}


def login(kind: int, user: str, line: str) -> bytes:
    head = struct.pack("hi32s4s32s", kind, 1, line.encode(), b"", user.encode())
    return head + bytes(384 - len(head))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_first_look_at_once_tells_all_but_what_is_counted_over_a_time(machine):
    found = machine.look()
    assert {name: found[name] for name in ("r15s", "r1m", "r15m", "swp", "mem")} == {
        "r15s": 2.0, "r1m": 2.0, "r15m": 0.75, "swp": 0, "mem": 2048,
    }  # fmt: skip
    assert found["tmp"] > 0
    assert found.keys().isdisjoint(("ut", "pg", "io", "ls", "it"))


def test_use_of_cpus_swap_space_and_disks_is_what_came_between_two_looks(machine):
    machine.look()
    machine.now_us += 10 * SECOND_US
    machine.count(busy=250, idle=750, moved=5000, swapped=20)
    found = machine.look()
    assert (found["ut"], found["io"], found["pg"]) == (0.25, 500.0, 2.0)


def test_a_first_look_later_tells_that_too(machine):
    machine.now_us += SECOND_US
    machine.count(busy=30, idle=70, moved=10)
    found = machine.look()
    assert (found["ut"], found["io"], found["pg"]) == (0.3, 10.0, 0.0)


def test_the_shortest_run_queue_follows_what_runs_now(machine):
    machine.look()
    machine.now_us += 15 * SECOND_US
    # Of five that run one is the worker itself.
    assert machine.look()["r15s"] == pytest.approx(2 + 2 * (1 - 0.3679), abs=0.001)
    machine.now_us += 3600 * SECOND_US
    assert machine.look()["r15s"] == pytest.approx(4)


def test_two_looks_have_a_time_between_them(machine):
    assert machine.meter.look()
    machine.now_us += LOOK_US - 1
    assert machine.meter.look() == ()
    machine.now_us += 1
    assert machine.meter.look()


def test_people_are_counted_once_and_the_last_who_typed_counts(machine):
    machine.log_in(("alice", "pts/1", 600), ("alice", "pts/2", 179), ("bob", "pts/3", 9000))
    found = machine.look()
    assert (found["ls"], found["it"]) == (2, 2)


def test_where_nobody_is_logged_in_the_host_idles_since_its_start(machine):
    machine.log_in()
    found = machine.look()
    assert (found["ls"], found["it"]) == (0, 121)


def test_what_a_machine_does_not_tell_is_unknown(tmp_path):
    nowhere = tmp_path / "nowhere"
    meter = LoadMeter(lambda: 0, lambda: WALL_S, Sources(nowhere, nowhere, nowhere, nowhere))
    assert set(meter.look()) == {UNKNOWN}


def test_this_machine_tells_its_load():
    now_us = 0
    meter = LoadMeter(lambda: now_us, lambda: WALL_S)
    meter.look()
    now_us = LOOK_US
    found = dict(zip(INDICES, meter.look(), strict=True))
    assert 0 <= found["ut"] <= 1000
    assert min(found[name] for name in ("r15s", "r1m", "r15m", "io", "pg", "tmp")) >= 0
    assert found["mem"] > 0


def test_broken_files_are_no_files():
    assert parse_counted("cpu 1 2", "") is None
    assert parse_counted("", "pgpgin 1\npgpgout 2") is None
    assert parse_sizes("MemFree:\nx y\nMemTotal: 12 kB\n") == {"MemTotal": 12}
    assert parse_logins(b"short") == []
