"""The slow look for jobs that could start, and whether what is free is kept from them."""

import pytest
from sessions import Scheduled

from xce.model.ids import SECOND_US
from xce.sim.idle import could_start, is_kept_back
from xce.testing.builders import cluster, modify, request, submission, submit


def waiting_array(backfill: str, tasks: int, apart: int) -> tuple[Scheduled, int]:
    """Return an array of which the last element was changed apart, on a host with two free slots
    that a wide job in front waits for, too.
    """
    world = Scheduled(cluster({"h1": 4}, backfill=backfill))
    submit(world.controller, submission(tasks=2, run_limit_us=60 * SECOND_US))
    world.run()
    submit(world.controller, submission(tasks=4, run_limit_us=60 * SECOND_US))
    wanted = submission(tasks=tasks, run_limit_us=600 * SECOND_US, elements="1-4")
    array = submit(world.controller, wanted)
    modify(world.controller, array, (4, 4), request=request(apart))
    return world, array


@pytest.mark.parametrize(("tasks", "apart", "place"), [(3, 2, 3), (2, 3, 0)])
def test_elements_changed_apart_that_fit_are_kept_back_for_a_reason_of_their_own(
    tasks, apart, place
):
    world, array = waiting_array("easy", tasks, apart)
    world.run()
    state = world.controller.state
    assert could_start(state) == [(array, place)]
    assert is_kept_back(state, array, place)
    assert not is_kept_back(state, array, 3 - place)


@pytest.mark.parametrize(("tasks", "apart", "place"), [(3, 2, 3), (2, 3, 0)])
def test_elements_changed_apart_that_nobody_looked_at_are_found(tasks, apart, place):
    world, array = waiting_array("none", tasks, apart)
    state = world.controller.state
    assert could_start(state) == [(array, place)]
    assert not is_kept_back(state, array, place)
    world.run()
    assert set(world.controller.job(array).live) == {place}
    assert could_start(state) == []
