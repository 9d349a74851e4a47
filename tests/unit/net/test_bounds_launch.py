"""What a worker tells of an attempt must be something that a submission could have said."""

import msgspec
import pytest

from xce.model.device import GpuWish
from xce.model.effect import Claim, Launch
from xce.model.job import ArraySpec
from xce.model.observation import TOLD_MAX, AttemptTold, Reported
from xce.model.request import Alternative, Amount, CuWish, Part, Phase, Request
from xce.net.bounds import refuse_observation
from xce.testing.builders import cluster, place, submission, submit
from xce.testing.values import request


def told(asks: Request | None = None, **changed: object) -> AttemptTold:
    """Return what a worker tells of a job that asks for something."""
    controller = cluster()
    place(controller, submit(controller, submission()))
    launch = next(one for _, one in controller.effects())
    if asks is not None:
        key = msgspec.structs.replace(launch.claim.key, request=asks)
        launch = msgspec.structs.replace(launch, claim=claimed(launch, key=key))
    return AttemptTold(0, 1, msgspec.structs.replace(launch, **changed), running=True, pid=9)


def claimed(launch: Launch, **changed: object) -> Claim:
    assert launch.claim is not None
    return msgspec.structs.replace(launch.claim, **changed)


def claim(**changed: object) -> Claim:
    return claimed(told().launch, **changed)


def refused(one: AttemptTold) -> str:
    return refuse_observation(Reported("h1", 1, told=(one,)))


@pytest.mark.parametrize(
    "asks",
    [
        request(),
        request((2, 9), mem_mib=5, ptile=-1),
        Request(select="mem > 5 && type == any", affinity="core"),
        Request(gpu=GpuWish(2, per="host"), cu=CuWish(max_domains=2)),
        Request(amounts=(Amount("mem", 5, duration_us=9, phases=(Phase(2),)),)),
        Request(2, 2, parts=(Part("a", 1, request()), Part("b", 1, request()))),
        Request(
            alternatives=(Alternative(Request(parts=(Part("a", 1, request()),))),),
        ),
    ],
)
def test_what_can_be_submitted_is_within_bounds(asks: Request) -> None:
    assert refused(told(asks)) == ""


@pytest.mark.parametrize(
    "asks",
    [
        Request(0, 1),
        Request(2, 1),
        Request(amounts=(Amount("mem", -5),)),
        Request(amounts=(Amount("mem", 1 << 60),)),
        Request(amounts=(Amount("mem", 5, "moon"),)),
        Request(amounts=(Amount("mem", 5, phases=(Phase(-1),)),)),
        Request(gpu=GpuWish(0)),
        Request(gpu=GpuWish(milli=-4)),
        Request(select="mem >"),
        Request(affinity="moon("),
        Request(cu=CuWish(max_domains=-1)),
        Request(ptile=-9),
        Request(parts=tuple(Part(str(n), 1, request()) for n in range(999))),
        Request(parts=(Part("a", 1, Request(parts=(Part("b", 1, Request(
            parts=(Part("c", 1, request()),))),))),)),
    ],
)  # fmt: skip
def test_what_cannot_be_submitted_is_refused(asks: Request) -> None:
    assert "told of an attempt" in refused(told(asks))


@pytest.mark.parametrize(
    "changed",
    [
        {"submit_at_us": -1},
        {"run_limit_us": 1 << 62},
        {"hosts": (("h1", 0),)},
        {"job": -3},
        {"claim": claim(rows=(("h1", -1, 0),))},
        {"claim": claim(alternative=-1)},
        {"claim": claim(array=ArraySpec(((1, 1 << 40, 1),)))},
    ],
)
def test_numbers_that_no_state_can_hold_are_refused(changed: dict[str, object]) -> None:
    assert refused(told(**changed))


def test_an_attempt_without_a_claim_is_within_bounds() -> None:
    assert refused(told(claim=None)) == ""


def test_too_much_at_once_is_refused() -> None:
    one = told()
    assert refuse_observation(Reported("h1", 1, told=(one,) * TOLD_MAX)) == ""
    assert refuse_observation(Reported("h1", 1, told=(one,) * (TOLD_MAX + 1)))
