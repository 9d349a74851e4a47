"""Faults of processors that the certifier must find, and placements that are right."""

import pytest
from processors import host_of

from xce.model.processor import Processor, mask_of
from xce.sched.certify_processors import find_processor_faults
from xce.state.hosts import HostTable
from xce.testing.builders import request


def table_of(processors: tuple[Processor, ...]) -> HostTable:
    table = HostTable()
    table.add("h1")
    table.processors.report(0, processors)
    table.join(0)
    return table


HOSTS = table_of(host_of(2, 2, 2))
"""Cores 01 23 of socket 0, 45 67 of socket 1."""


def faults(text: str, held: str, *tasks: str) -> list[str]:
    """Return what is wrong where sets of processors are written digit by digit."""
    words = [mask_of(map(int, some)) for some in (held, *tasks)]
    asked = request(len(tasks), affinity=text)
    return find_processor_faults((asked,), [0], [len(tasks)], (), [words], HOSTS)


@pytest.mark.parametrize(
    ("text", "held", "tasks"),
    [
        ("core(1)", "0123", ("01", "23")),
        ("thread(2)", "07", ("07",)),
        ("core(2,same=socket)", "4567", ("4567",)),
        ("core(1,exclusive=(socket))", "0123", ("23",)),
        ("core(1,exclusive=(socket,injob))", "0145", ("01", "45")),
        ("core(2,exclusive=(socket,intask))", "0145", ("0145",)),
        ("core(1,exclusive=(socket)):cpubind=socket", "0123", ("01",)),
        ("core(1):cpubind=socket", "01", ("01",)),
        ("core(1):distribute=pack(socket=1)", "4567", ("45", "67")),
    ],
)
def test_what_is_as_asked_passes(text, held, tasks):
    assert faults(text, held, *tasks) == []


@pytest.mark.parametrize(
    ("text", "held", "tasks", "why"),
    [
        ("core(1)", "0", ("0",), "a part of a core"),
        ("core(1)", "0123", ("0123",), "2 core units, not 1"),
        ("core(2)", "01", ("01",), "1 core units, not 2"),
        ("core(1)", "01", ("01", "01"), "two tasks have one processor"),
        ("core(1)", "0123", ("01",), "others than are held"),
        ("core(1)", "", ("01",), "others than are held"),
        ("core(2,same=socket)", "0145", ("0145",), "several socket domains"),
        ("core(1,exclusive=(socket))", "01", ("01",), "not held as a whole"),
        ("core(1,exclusive=(socket,injob))", "0123", ("01", "23"), "share a socket"),
        ("core(2,exclusive=(socket,intask))", "0123", ("0123",), "units of a task share"),
        ("core(1):distribute=pack(socket=1)", "0145", ("01", "45"), "2 socket domains"),
        ("core(1,exclusive=(socket)):cpubind=socket", "0123", ("0123",), "2 core units, not 1"),
        ("thread(1)", "8", ("8",), "are not there"),
        ("", "01", ("01",), "nobody asked for"),
    ],
)
def test_a_fault_is_found(text, held, tasks, why):
    assert why in "".join(faults(text, held, *tasks))


def test_processors_that_are_not_said_are_a_fault():
    asked = request(2, affinity="core(1)")
    table = HOSTS
    assert find_processor_faults((asked,), [0], [2], (), [], table)
    assert find_processor_faults((asked,), [0], [2], (), [[]], table)
    assert find_processor_faults((asked,), [0], [2], (), [[1, 1]], table)
    assert find_processor_faults((asked,), [0], [2], (), [[-1, 1, 1]], table)
    assert find_processor_faults((request(),), [0], [1], (), [], table) == []
