import asyncio
from collections.abc import Callable, Coroutine

import msgspec
import pytest

from xce.model.effect import Launch
from xce.model.ids import SECOND_US
from xce.model.job import EndCause, JobSpec, Owner
from xce.worker import action as a
from xce.worker.hollow import HollowOptions, HollowShepherd, parse_course
from xce.worker.link import ShepherdList
from xce.worker.order import OrderFrame, ReadOrder, SpawnOrder, SpawnShared

LONG = "100000"
NOTE = msgspec.json.encode(
    Launch(
        1, [0], [1], JobSpec(), Owner("u", 1, 1), "normal", "default", "c", (("h", 1),), 1, 0, 0,
        0, 0, "", 0, 1,
    )
).decode()  # fmt: skip


class Rig:
    """A hollow shepherd, and what it tells."""

    def __init__(self) -> None:
        self.lists: list[ShepherdList] = []
        self.events: list[a.Event] = []
        self.came = asyncio.Event()
        self.shepherd = HollowShepherd(HollowOptions(), self.lists.append, self.take)

    def take(self, events: list[a.Event]) -> None:
        self.events += events
        self.came.set()

    def spawn(self, *keys: a.Key, **environ: str) -> None:
        shared = SpawnShared(
            note=NOTE, base="b", env={}, uid=1, gid=1, groups=(), cwd="/", make_cwd=False, umask=0,
            script=[], way="exec", limit_kib=0,
        )  # fmt: skip
        items = [(*key, dict[str, str](), "", None, None) for key in keys]
        self.shepherd.send(OrderFrame([SpawnOrder(shared, items)], {"b": environ}))

    def order(self, *orders: a.Signal | a.Suspend | a.Forget | a.Lease | ReadOrder) -> None:
        self.shepherd.send(OrderFrame(list(orders), {}))

    async def until(self, count: int) -> list[a.Event]:
        """Return the news when there are so many, and forget them."""
        while len(self.events) < count:
            self.came.clear()
            await self.came.wait()
        events, self.events = self.events, []
        return events


def play(scene: Callable[[Rig], Coroutine[None, None, None]]) -> None:
    async def run() -> None:
        rig = Rig()
        task = asyncio.create_task(rig.shepherd.run())
        await asyncio.sleep(0)
        await scene(rig)
        task.cancel()
        await asyncio.wait({task})
        assert not rig.shepherd.is_ready

    asyncio.run(asyncio.wait_for(run(), 20))


def test_a_job_runs_for_its_time_and_ends_with_its_code() -> None:
    async def scene(rig: Rig) -> None:
        assert rig.lists[0].listed == []
        assert rig.lists[0].greeting.isolation.startswith("hollow")
        rig.spawn((1, 0, 1), XCE_HOLLOW_S="0.01", XCE_HOLLOW_EXIT="3")
        started, ended = await rig.until(2)
        assert isinstance(started, a.Started)
        assert isinstance(ended, a.Ended)
        assert (ended.exit_code, ended.signal, ended.cause) == (3, 0, EndCause.NONE)
        assert ended.ended_us - ended.started_us >= 10_000

    play(scene)


def test_an_attempt_is_started_once_and_listed_until_it_is_forgotten() -> None:
    async def scene(rig: Rig) -> None:
        rig.spawn((1, 0, 1), (1, 1, 1), XCE_HOLLOW_S=LONG)
        rig.spawn((1, 0, 1), XCE_HOLLOW_S=LONG)
        assert len(await rig.until(2)) == 2
        rig.order(a.Signal(1, 0, 1, 9, EndCause.FORCE_OWNER, 4))
        (ended,) = await rig.until(1)
        assert isinstance(ended, a.Ended)
        assert (ended.exit_code, ended.signal, ended.cause) == (137, 9, EndCause.FORCE_OWNER)
        first, second = rig.shepherd.listing()
        assert (first.ended, second.ended) == (ended, None)
        rig.order(a.Forget(1, 0, 1, keep=True), a.Forget(1, 1, 1, keep=True))
        assert [one.present.key for one in rig.shepherd.listing()] == [(1, 1, 1)]

    play(scene)


def test_a_stopped_job_takes_signals_when_it_goes_on_and_ends_that_resume_it() -> None:
    async def scene(rig: Rig) -> None:
        rig.spawn((1, 0, 1), (2, 0, 1), XCE_HOLLOW_S=LONG)
        rig.order(a.Suspend(1, 0, 1, suspended=True), a.Suspend(1, 0, 1, suspended=True))
        rig.order(a.Suspend(2, 0, 1, suspended=True))
        assert len(await rig.until(4)) == 4
        rig.order(a.Signal(1, 0, 1, 10, count=1), a.Signal(2, 0, 1, 2, EndCause.FORCE_OWNER, 2))
        resumed, ended = await rig.until(2)
        assert resumed == a.Suspended(2, 0, 1, suspended=False)
        assert isinstance(ended, a.Ended)
        assert ended.signal == 2
        rig.order(a.Signal(1, 0, 1, 28, count=2), a.Suspend(1, 0, 1, suspended=False))
        resumed, ended = await rig.until(2)
        assert resumed == a.Suspended(1, 0, 1, suspended=False)
        assert isinstance(ended, a.Ended)
        assert (ended.signal, ended.exit_code) == (10, 138)

    play(scene)


def test_a_job_that_says_nonsense_of_itself_fails_and_says_why() -> None:
    async def scene(rig: Rig) -> None:
        rig.spawn((1, 0, 1), XCE_HOLLOW_S="soon")
        (ended,) = await rig.until(1)
        assert isinstance(ended, a.Ended)
        assert (ended.cause, ended.host_fault) == (EndCause.START_FAILED, False)
        assert "'soon' is no time" in ended.detail

    play(scene)


def test_a_lease_that_runs_out_ends_its_attempt_and_a_new_one_replaces_it() -> None:
    async def scene(rig: Rig) -> None:
        rig.spawn((1, 0, 1), (2, 0, 1), XCE_HOLLOW_S=LONG)
        await rig.until(2)
        rig.order(a.Lease([(2, 0, 1, 1, 1)]))
        rig.order(a.Lease([(1, 0, 1, 1, 1), (2, 0, 1, 2**50, 2**50)]))
        (ended,) = await rig.until(1)
        assert isinstance(ended, a.Ended)
        assert (ended.key, ended.cause) == ((1, 0, 1), EndCause.HOST_LOST)

    play(scene)


def test_what_is_frozen_goes_on_with_a_lease_unless_it_is_stopped_and_else_ends() -> None:
    async def scene(rig: Rig) -> None:
        free, stopped, late = (1, 0, 1), (2, 0, 1), (3, 0, 1)
        rig.spawn(free, stopped, late, XCE_HOLLOW_S="1")
        await rig.until(3)
        rig.order(a.Suspend(*stopped, suspended=True))
        assert await rig.until(1) == [a.Suspended(*stopped, suspended=True)]
        rig.order(a.Lease([(*key, 1, 2**50) for key in (free, stopped, late)]))
        told = await rig.until(3)
        assert told == [a.Frozen(*key, frozen=True) for key in (free, stopped, late)]
        assert all(one.present.frozen_us for one in rig.shepherd.listing())
        await asyncio.sleep(1.1)
        assert rig.events == []
        rig.order(a.Lease([(*free, 2**50, 2**50), (*stopped, 2**50, 2**50), (*late, -1, -1)]))
        told = await rig.until(3)
        assert told[:2] == [a.Frozen(*key, frozen=False) for key in (free, stopped)]
        assert isinstance(told[2], a.Ended)
        assert (told[2].key, told[2].exit_code) == (free, 0)
        rig.order(a.Lease([(*late, 1, 1)]))
        (ended,) = await rig.until(1)
        assert isinstance(ended, a.Ended)
        assert (ended.key, ended.cause) == (late, EndCause.HOST_LOST)
        rig.order(a.Suspend(*stopped, suspended=False))
        assert len(await rig.until(2)) == 2

    play(scene)


def test_there_is_no_output_to_read() -> None:
    async def scene(rig: Rig) -> None:
        rig.order(ReadOrder(7, (1, 0, 1), "", "1.out", (1, 1, ()), 0, 100))
        assert await rig.until(1) == [a.Piece(7, "", 0, "a hollow host's jobs write nothing")]

    play(scene)


def test_times_are_parsed_and_an_attempt_always_takes_as_long() -> None:
    assert parse_course("1.5").length_us((1, 0, 1)) == 1_500_000
    course = parse_course("1-10", "255")
    lengths = {course.length_us((1, index, 1)) for index in range(100)}
    assert len(lengths) > 90
    assert all(SECOND_US <= length <= 10 * SECOND_US for length in lengths)
    assert course.length_us((1, 5, 1)) == parse_course("1-10").length_us((1, 5, 1))


@pytest.mark.parametrize(
    "said", [("",), ("-1",), ("5-1",), ("1e3",), ("1", "256"), ("1", "-1"), ("1", "")]
)
def test_nonsense_is_refused(said: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="expected"):
        parse_course(*said)
