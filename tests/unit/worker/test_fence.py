"""How long attempts may outlive a lost contact, as the worker says it."""

import pytest

from xce.model.effect import Launch
from xce.model.job import JobSpec, Owner
from xce.worker.action import KEPT, Lease, Signal
from xce.worker.attempt import Live
from xce.worker.fence import Fence
from xce.worker.order import EarlierLease, for_earlier

S = 1_000_000


def live(job: int = 1, fence_us: int = 60 * S, kill_us: int = 80 * S) -> Live:
    launch = Launch(
        job, [0], [1], JobSpec(command="x"), Owner("u", 1, 1), "normal", "p", "c", (("h1", 1),),
        1, 0, 0, 600 * S, 10 * S, fence_us=fence_us, fence_kill_us=kill_us,
    )  # fmt: skip
    return Live(launch, 0, 1)


def test_nothing_is_said_of_what_is_not_fenced() -> None:
    fence = Fence()
    fence.contact(10 * S)
    assert fence.lease([live(fence_us=0)]) == []
    assert fence.lease([live(fence_us=0)], is_news=True) == [Lease([])]


def test_both_instants_count_from_the_last_contact_that_is_proved() -> None:
    fence = Fence()
    for at_us in (10, 40, 35):
        fence.contact(at_us * S)
    assert fence.lease([live()]) == [Lease([(1, 0, 1, 100 * S, 120 * S)])]


def test_what_is_launched_before_anything_is_proved_counts_from_the_welcome() -> None:
    fence = Fence()
    fence.meet(5 * S)
    one = fence.begin(live())
    fence.meet(7 * S)
    assert fence.lease([one]) == [Lease([(1, 0, 1, 65 * S, 85 * S)])]
    fence.contact(8 * S)
    assert fence.lease([one]) == [Lease([(1, 0, 1, 68 * S, 88 * S)])]


def test_what_is_launched_behind_a_later_welcome_counts_from_that_one() -> None:
    fence = Fence()
    fence.contact(10 * S)
    early = fence.begin(live(1))
    fence.meet(900 * S)
    late = fence.begin(live(2))
    assert fence.lease([early, late]) == [
        Lease([(1, 0, 1, 70 * S, 90 * S), (2, 0, 1, 960 * S, 980 * S)])
    ]


def test_a_worker_that_knows_of_no_contact_leaves_what_it_finds_as_it_is() -> None:
    fence = Fence()
    fence.meet(5 * S)
    found, begun = live(1), fence.begin(live(2))
    assert fence.lease([found, begun]) == [
        Lease([(1, 0, 1, KEPT, KEPT), (2, 0, 1, 65 * S, 85 * S)])
    ]


def test_for_a_controller_that_knows_of_no_freezing_both_instants_are_one() -> None:
    fence = Fence()
    fence.contact(10 * S)
    assert fence.lease([live(kill_us=0)]) == [Lease([(1, 0, 1, 70 * S, 70 * S)])]


@pytest.mark.parametrize("asleep_us", [0, 3_600 * S])
def test_a_shepherd_that_cannot_freeze_is_told_to_kill_instead_by_its_own_clock(
    asleep_us: int,
) -> None:
    signal = Signal(1, 0, 1, 15)
    known = Lease([(1, 0, 1, 4_000 * S, 4_020 * S)])
    told = for_earlier([signal, known], asleep_us)
    assert told == [signal, EarlierLease([(1, 0, 1, 4_000 * S - asleep_us)])]
    kept = Lease([(1, 0, 1, KEPT, KEPT), (2, 0, 1, 65 * S, 85 * S)])
    assert for_earlier([kept, signal], asleep_us) == [signal], "it keeps the leases that it has"
