"""What the history keeps of elements that were changed apart from the rest of an array."""

import random

import msgspec
import pytest

from xce.journal.history_live import Apart, JobFacts
from xce.model.job import ArraySpec

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
