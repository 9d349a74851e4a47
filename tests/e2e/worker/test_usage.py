"""What running attempts use, told by a real shepherd of real processes."""

import os

import pytest
from worker_rig import MODES, open_shepherd, wait_until

from xce.model.usage import AttemptUse

HUNGRY = """
python3 -c '
import os, threading, time
held = bytearray(96 << 20)
threading.Thread(target=time.sleep, args=(600,)).start()
while time.process_time() < 0.3:
    pass
open("up.new", "w").write(str(os.getpid()))
os.rename("up.new", "up")
time.sleep(600)' &
wait
"""


@pytest.fixture(params=MODES)
def shepherd(request):
    with open_shepherd(request.param) as made:
        made.root.chmod(0o777)
        yield made


def uses(shepherd, number=1):
    shepherd.order(["uses", number])
    _, answered, rows = shepherd.expect("uses")
    assert answered == number
    return {row[0]: AttemptUse(*row[:10], pids=tuple(row[10])) for row in rows}


def test_memory_time_threads_and_processes_of_all_that_a_job_started_are_told(shepherd):
    shepherd.spawn(HUNGRY)
    shepherd.spawn("exec sleep 600", job=2)
    shepherd.spawn("true", job=3)
    wait_until(lambda: shepherd.text("up"), "it has taken its memory")
    shepherd.ended(3)
    found = uses(shepherd)
    assert sorted(found) == [1, 2]
    one, other = found[1], found[2]
    child = int(shepherd.text("up"))
    shell = shepherd.expect("started", 1, 0, 1)[4]
    assert one.pid == shell
    assert {shell, child} <= set(one.pids)
    assert list(one.pids) == sorted(one.pids)
    assert not set(one.pids) & set(other.pids)
    assert one.mem_kib >= 96 * 1024 > other.mem_kib > 0
    assert one.max_mem_kib >= one.mem_kib
    assert one.cpu_us >= 250_000 > other.cpu_us
    assert one.threads >= len(one.pids) + 1
    assert other.threads == len(other.pids)


def test_the_average_is_over_all_looks_and_the_largest_stays(shepherd):
    script = (
        "x=$(head -c 50000000 /dev/zero | tr '\\0' x); touch up; read y <go; unset x; exec sleep 9"
    )
    os.mkfifo(shepherd.root / "go")
    (shepherd.root / "go").chmod(0o666)
    shepherd.spawn(script)
    wait_until((shepherd.root / "up").exists, "it has taken its memory")
    full = uses(shepherd)[1]
    (shepherd.root / "go").write_text("on\n")
    seen = [full]

    def is_less():
        seen.append(uses(shepherd)[1])
        return seen[-1].mem_kib < full.mem_kib / 4

    wait_until(is_less, "it has given it back")
    assert seen[-1].max_mem_kib >= full.mem_kib
    assert seen[-1].mem_kib < seen[-1].avg_mem_kib < full.mem_kib
    shepherd.restart()
    after = uses(shepherd)[1]
    assert after.avg_mem_kib == after.mem_kib > 0


def test_what_a_part_uses_is_told_as_the_jobs(shepherd):
    shepherd.open_part()
    assert uses(shepherd)[1].pids == ()
    shepherd.start_task(1, "t", ["/bin/sh", "-c", "touch up; exec sleep 600"])
    wait_until((shepherd.root / "up").exists, "its task runs")
    found = uses(shepherd, 2)[1]
    assert (found.pid, len(found.pids), found.threads) == (0, 1, 1)
    assert found.mem_kib > 0
