"""What a worker is told of processors: wider bindings, and memory of parts."""

import pytest
from processors import host_of

from xce.model.config import HostConfig
from xce.model.effect import Launch
from xce.model.processor import Binding
from xce.model.request import Part, Request
from xce.sched.session import run_session
from xce.testing.builders import cluster, request, submission, submit
from xce.testing.recorded import accept_plan


def bindings(asks: Request) -> tuple[Binding, ...]:
    """Return what a job is bound to on the hosts where it starts."""
    controller = cluster([HostConfig(name="h1", slots=8, processors=host_of(2, 2, 1))])
    submit(controller, submission(asks=asks))
    accept_plan(controller, run_session(controller.state, now_us=controller.now_us))
    ((_, launch),) = controller.effects()
    assert isinstance(launch, Launch)
    return launch.bindings[0]


def of_parts(*texts: str) -> Request:
    parts = tuple(
        Part(f"part{place}", 1, Request(affinity=text)) for place, text in enumerate(texts)
    )
    return Request(len(texts), len(texts), parts=parts)


@pytest.mark.parametrize(
    ("text", "tasks"),
    [
        ("core(1):cpubind=socket", ("0-1", "0-1", "2-3")),
        ("core(1):cpubind=core", ("0", "1", "2")),
        ("core(1):cpubind=numa:distribute=balance", ("0-1", "2-3", "0-1")),
    ],
)
def test_a_task_is_bound_to_the_domains_around_its_units(text, tasks):
    assert bindings(request(3, affinity=text))[0].tasks == tasks


def test_memory_follows_the_wider_binding():
    (found,) = bindings(request(1, affinity="core(1):cpubind=socket:membind=localonly"))
    assert (found.tasks, found.nodes, found.is_local_only) == (("0-1",), ("0",), True)


def test_parts_have_their_own_words_for_memory():
    (found,) = bindings(
        of_parts("core(2,same=socket):membind=localonly", "core(1):membind=localprefer")
    )
    assert found.tasks == ("0-1", "2")
    assert found.nodes == ("0", "1")
    assert [found.keeps_local(task) for task in (0, 1)] == [True, False]
    assert not found.is_local_only


def test_a_part_without_a_word_leaves_memory_free():
    (found,) = bindings(of_parts("core(1):membind=localonly", "core(1)", ""))
    assert found.nodes == ("0", "", "")
    assert found.tasks == ("0", "1", "0-3")
