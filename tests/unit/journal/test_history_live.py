"""What the history keeps of elements that were changed apart, and of attempts that were adopted."""

import random

import msgspec
import pytest
from restored_site import Site

from xce.journal.history import HistoryWriter
from xce.journal.history_live import Apart, JobFacts
from xce.journal.history_reader import HistoryReader
from xce.model.job import ArraySpec
from xce.testing.builders import cluster, gang, join_host, leave_host, propose, submission, submit
from xce.worker.core import HostState

INDICES = range(1, 20, 3)
FORMS = (Apart((), 1, 1, "normal"), Apart((), 2, 1, "night"), Apart((), 3, 1, "day"))


@pytest.mark.parametrize("seed", range(40))
def test_runs_of_elements_of_one_queue_hold_each_element_once_and_none_is_empty(seed):
    rng = random.Random(seed)
    facts = JobFacts("alice", "normal", 0, ArraySpec(runs=((1, 19, 3),)), (1, 1))
    queues = dict.fromkeys(INDICES, "normal")
    for _ in range(5):
        first, last = sorted(rng.choices(INDICES, k=2))
        one = msgspec.structs.replace(rng.choice(FORMS), runs=((first, last),))
        facts = msgspec.structs.replace(facts, apart=facts.set_apart(one, facts.form))
        queues |= dict.fromkeys(facts.indices(first, last), one.queue)
    assert {index: facts.queue_of(index) for index in INDICES} == queues
    first, last = sorted(rng.choices(INDICES, k=2))
    found = [
        (index, queue)
        for low, high, queue in facts.runs_in(first, last)
        for index in facts.indices(low, high)
    ]
    assert all(facts.size(low, high) for low, high, _ in facts.runs_in(first, last))
    assert sorted(found) == [(index, queues[index]) for index in facts.indices(first, last)]


def test_an_attempt_that_was_adopted_is_kept_under_its_own_number(tmp_path):
    controller = cluster({"h1": 4, "h2": 4})
    before, site = controller.state.seq, Site(controller)
    job = submit(controller, submission(rerunnable=True, tasks=2))
    propose(controller, gang(controller, job, hosts={"h1": 2}))
    site.tell()
    leave_host(controller, "h1")
    site.machines["h1"] = HostState()
    join_host(controller, "h1", boot_id="boot-2")
    propose(controller, gang(controller, job, hosts={"h2": 2}))
    site.tell()
    controller = site.restore(before)
    site.adopt("h2")
    site.end("h2", (job, 0, 2), exit_code=4)
    writer = HistoryWriter(tmp_path / "history.db")
    writer.take(controller.entries, crc=7, epoch=3)
    writer.commit()
    writer.close()
    reader = HistoryReader(tmp_path / "history.db")
    (element,) = reader.job(job).elements
    reader.close()
    assert (element.ended.attempt, element.ended.exit_code) == (2, 4)
    assert element.hosts == (("h2", 2),)
