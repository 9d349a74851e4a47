"""What the kernel tells of a machine's processors."""

import os
from pathlib import Path

from xce.model.processor import Processor, layout_of
from xce.worker.processors import find_processors


def machine(root: Path, *rows: tuple[int, int, str, int]) -> Path:
    """Write what the kernel tells: processor, socket, threads of its core, NUMA domain."""
    nodes: dict[int, list[str]] = {}
    for number, socket, siblings, node in rows:
        place = root / f"cpu/cpu{number}/topology"
        place.mkdir(parents=True)
        (place / "physical_package_id").write_text(f"{socket}\n")
        (place / "thread_siblings_list").write_text(f"{siblings}\n")
        nodes.setdefault(node, []).append(str(number))
    for node, numbers in nodes.items():
        place = root / f"node/node{node}"
        place.mkdir(parents=True)
        (place / "cpulist").write_text(",".join(numbers) + "\n")
    return root


def test_cores_are_counted_over_the_whole_host(tmp_path: Path):
    system = machine(
        tmp_path, (0, 0, "0,4", 0), (1, 0, "1,5", 0), (2, 1, "2,6", 1), (3, 1, "3,7", 1),
        (4, 0, "0,4", 0), (5, 0, "1,5", 0), (6, 1, "2,6", 1), (7, 1, "3,7", 1),
    )  # fmt: skip
    found = find_processors(range(8), system=system)
    assert found[6] == Processor(6, 2, 1, 1)
    assert layout_of(found).domains["core"] == (0b1_0001, 0b10_0010, 0b100_0100, 0b1000_1000)
    assert layout_of(found).domains["numa"] == (0b11_0011, 0b1100_1100)


def test_only_what_we_may_use_counts(tmp_path: Path):
    system = machine(tmp_path, (0, 0, "0-1", 0), (1, 0, "0-1", 0), (2, 0, "2-3", 0))
    assert [item.number for item in find_processors([1, 2], system=system)] == [1, 2]


def test_a_machine_without_numa_domains_or_sockets_has_one(tmp_path: Path):
    system = machine(tmp_path, (0, -1, "0", 0))
    (tmp_path / "node/node0/cpulist").unlink()
    (tmp_path / "node/node0").rmdir()
    assert find_processors([0], system=system) == (Processor(0, 0, 0, 0),)


def test_where_the_kernel_does_not_tell_there_are_none(tmp_path: Path):
    assert find_processors([0], system=tmp_path) == ()
    assert find_processors([], system=tmp_path) == ()
    system = machine(tmp_path, (0, 0, "nothing", 0))
    assert find_processors([0], system=system) == ()


def test_this_machine_has_those_that_we_may_use():
    found = find_processors()
    assert not found or {item.number for item in found} == os.sched_getaffinity(0)
