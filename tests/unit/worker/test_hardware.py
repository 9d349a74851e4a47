from pathlib import Path

from xce.worker.hardware import count_processors, find_hardware, find_programs
from xce.worker.load import Sources

THREAD = "processor\t: {thread}\nphysical id\t: {socket}\ncore id\t\t: {core}\nflags\t: a b\n\n"
PLACES = [(socket, core) for socket in (0, 1) for core in (0, 1, 2) for _ in (0, 1)]


def test_processors_cores_and_threads_are_counted():
    text = "".join(
        THREAD.format(thread=thread, socket=socket, core=core)
        for thread, (socket, core) in enumerate(PLACES)
    )
    assert count_processors(text) == {"nprocs": 2, "ncores": 6, "nthreads": 12}


def test_threads_that_do_not_say_where_they_are_are_cores_of_one_processor():
    text = "processor : 0\nBogoMIPS : 50\n\nprocessor : 1\nBogoMIPS : 50\n\nHardware : x\n"
    assert count_processors(text) == {"nprocs": 1, "ncores": 2, "nthreads": 2}
    assert count_processors("Hardware : x\n") == {}


def test_disks_are_those_that_can_be_touched(tmp_path):
    for name in ("sda", "nvme0n1", "loop0", "ram3", "dm-1", "sr0", "zram0"):
        (tmp_path / "block" / name).mkdir(parents=True)
    nowhere = tmp_path / "nowhere"
    found = find_hardware(Sources(nowhere, nowhere, nowhere, nowhere), tmp_path)
    assert found == {"ndisks": 2_000}


def test_this_machine_tells_what_it_is():
    found = find_hardware()
    assert found["nthreads"] >= found["ncores"] >= found["nprocs"] >= 1000
    assert found["maxtmp"] > 0
    assert "maxswp" in found
    assert Path("/sys/block").exists() == ("ndisks" in found)


def test_a_program_that_need_not_be_everywhere_is_told_where_it_is(tmp_path: Path):
    assert find_programs(str(tmp_path)) == {}
    (tmp_path / "nvidia-cuda-mps-control").touch(mode=0o755)
    assert find_programs(str(tmp_path)) == {"nvidia-cuda-mps-control": True}
