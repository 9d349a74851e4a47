"""What roles take, and when amounts come back."""

import numpy as np
import pytest
from msgspec.structs import replace

from xce.model.config import HostConfig
from xce.model.ids import SECOND_US
from xce.model.record import AmountsReturned
from xce.model.request import Alternative, Amount, CuWish, Part, Phase, Request
from xce.state.check import check_state
from xce.state.needs import compile_forms, delays_of, of_pools, on_hosts, open_form
from xce.state.snapshot import digest, dump, load
from xce.testing.builders import (
    cluster,
    gang,
    place,
    propose,
    replayed,
    report_ended,
    report_started,
    submission,
    submit,
    tick,
)

ROWS = {"slots": 0, "mem": 1}


def held(amount: Amount) -> list[tuple[int, int]]:
    """Return when how much of a memory amount for the job is held, in seconds."""
    (form,) = compile_forms(Request(amounts=(replace(amount, per="job"),)), ROWS)
    values = [int(needs[0].per_job[1]) for needs in form.stages]
    return list(zip([0, *(at // SECOND_US for at in form.offsets)], values, strict=True))


def test_equal_requests_share_their_forms_and_nobody_can_change_them():
    def compiled(mem: int, rows: dict[str, int] = ROWS):
        return compile_forms(Request(amounts=(Amount("mem", mem),)), rows)

    assert compiled(5) is compiled(5)
    assert compiled(5) is not compiled(6)
    assert compiled(5, {"slots": 0, "lic": 1})[0].needs[0].task_pools == (("mem", 5),)
    need = compiled(5)[0].needs[0]
    with pytest.raises(ValueError, match="read-only"):
        need.per_task[1] += 1
    taken = need.on_host(2)
    taken[1] += 1
    assert need.per_task.tolist() == [1, 5]


def test_an_amount_with_a_duration_comes_back_at_once():
    assert held(Amount("mem", 5)) == [(0, 5)]
    assert held(Amount("mem", 5, duration_us=60 * SECOND_US)) == [(0, 5), (60, 0)]


def test_an_amount_that_decays_comes_back_in_at_most_eight_equal_steps():
    sixteen = held(Amount("mem", 16, duration_us=80 * SECOND_US, decay=True))
    assert sixteen == [(0, 16), *((10 * step, 16 - 2 * step) for step in range(1, 9))]
    three = held(Amount("mem", 3, duration_us=9 * SECOND_US, decay=True))
    assert three == [(0, 3), (3, 2), (6, 1), (9, 0)]


def test_phases_follow_each_other_and_a_larger_one_is_held_from_the_start():
    phases = (Phase(4, 20 * SECOND_US), Phase(1))
    amount = Amount("mem", 9, duration_us=10 * SECOND_US, phases=phases)
    assert held(amount) == [(0, 9), (10, 4), (30, 1)]
    assert held(replace(amount, value=2)) == [(0, 4), (30, 1)]
    decays = Amount("mem", 6, duration_us=4 * SECOND_US, decay=True, phases=(Phase(2),))
    assert held(decays) == [(0, 6), (1, 5), (2, 4), (3, 3), (4, 2)]


def test_parts_carry_their_own_amounts_and_may_share_a_host():
    one = Request(amounts=(Amount("mem", 2), Amount("mem", 10, "job"), Amount("lic", 1)))
    two = Request(amounts=(Amount("mem", 5, "host"), Amount("lic", 3, "job")))
    whole = Request(parts=(Part("a", 3, one), Part("b", 2, two)), tasks_min=5, tasks_max=5)
    (form,) = compile_forms(whole, ROWS)
    assert [(role.tasks_min, role.tasks_max) for role in form.roles] == [(3, 3), (2, 2)]
    amounts = on_hosts(form.needs, [7, 8, 8], [2, 1, 2], [0, 0, 1])
    assert {host: column.tolist() for host, column in amounts.items()} == {
        7: [2, 14],
        8: [3, 7],
    }
    assert of_pools(form.needs, [2, 1, 2], [0, 0, 1]) == {"lic": 6}


def test_alternatives_take_hosts_and_range_from_outside():
    inner = Request(tasks_min=1, tasks_max=8)
    whole = Request(
        tasks_min=2,
        tasks_max=4,
        exclusive=True,
        alternatives=(Alternative(inner), Alternative(inner, delay_us=9)),
    )
    forms = compile_forms(whole, ROWS)
    assert [(f.request.tasks_min, f.request.tasks_max) for f in forms] == [(2, 4), (2, 4)]
    assert all(form.request.exclusive for form in forms)
    assert open_form(whole, forms, 0, 0) is not None
    assert open_form(whole, forms, 1, 8) is None
    assert open_form(whole, forms, 1, 9) is not None
    assert open_form(whole, forms, 2, 9) is None


def test_a_wish_that_was_waited_for_too_long_is_given_up():
    whole = Request(cu=CuWish("rack", max_domains=1, max_wait_us=5))
    assert delays_of(whole) == (5,)
    forms = compile_forms(whole, ROWS)
    waits, gave_up = open_form(whole, forms, 0, 4), open_form(whole, forms, 0, 5)
    assert waits is not None
    assert waits.roles[0].cu is not None
    assert gave_up is not None
    assert gave_up.roles[0].cu is None


def test_amounts_come_back_by_records_of_the_tick_at_every_follower():
    controller = cluster([HostConfig(name="h1", slots=4, mem_mib=100)], pools={"seats": 9})
    amounts = (
        Amount("mem", 40, duration_us=60 * SECOND_US),
        Amount("seats", 2, duration_us=120 * SECOND_US, decay=True),
    )
    array = submit(controller, submission(asks=Request(amounts=amounts), elements="1-2"))
    pair = submit(controller, submission(asks=Request(tasks_min=2, tasks_max=2, amounts=amounts)))
    place(controller, array)
    propose(controller, gang(controller, pair, hosts={"h1": 2}))
    table, pools = controller.state.hosts, controller.state.pools
    assert not controller.job(pair).live, "there is no memory for it"
    report_started(controller, array, 1)
    tick(controller, after_us=30 * SECOND_US)
    report_started(controller, array, 2)
    assert (table.used[:, 0].tolist(), pools.used["seats"]) == ([2, 80], 4)

    tick(controller, after_us=31 * SECOND_US)

    assert controller.entries[-1].records == (AmountsReturned([array], [1], [1]),)
    assert (table.used[:, 0].tolist(), pools.used["seats"]) == ([2, 40], 3)
    propose(controller, gang(controller, pair, hosts={"h1": 2}))
    assert not controller.job(pair).live
    tick(controller, after_us=60 * SECOND_US)
    assert (table.used[:, 0].tolist(), pools.used["seats"]) == ([2, 0], 1)
    propose(controller, gang(controller, pair, hosts={"h1": 2}))
    assert (table.used[:, 0].tolist(), pools.used["seats"]) == ([4, 80], 5)
    report_ended(controller, array, 1)
    check_state(controller.state)
    loaded = load(dump(controller.state))
    check_state(loaded)
    assert digest(loaded) == digest(controller.state)
    assert np.array_equal(loaded.hosts.used, table.used)
    assert loaded.returns
    assert digest(replayed(controller.entries)) == digest(controller.state)


def test_instants_of_attempts_that_are_over_do_not_pile_up():
    controller = cluster([HostConfig(name="h1", slots=3_000, mem_mib=5_000)])
    amounts = (Amount("mem", 1, duration_us=3_600 * SECOND_US),)
    array = submit(controller, submission(asks=Request(amounts=amounts), elements="1-1500"))
    place(controller, array)
    for index in range(1, 1_501):
        report_started(controller, array, index)
    assert len(controller.state.returns) == 1_500
    for index in range(1, 1_301):
        report_ended(controller, array, index)
    assert len(controller.state.returns) < 700
    check_state(controller.state)
