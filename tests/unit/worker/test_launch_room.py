"""Room in a worker for what processes of jobs have said."""

import asyncio

from xce.worker.launch_room import LaunchRoom

ONE, OTHER = (1, 0, 1), (2, 0, 1)


def test_an_attempt_waits_for_its_own_room_in_turn_and_for_nobody_elses():
    async def story():
        room, entered = LaunchRoom(10), []

        async def enter(name, key, size):
            leave = await room.take(key, size)
            entered.append(name)
            return leave

        first = await enter("first", ONE, 6)
        tasks = [asyncio.ensure_future(enter(*one)) for one in (("big", ONE, 10), ("last", ONE, 1))]
        await asyncio.sleep(0)
        await enter("other", OTHER, 10)
        assert entered == ["first", "other"]
        first()
        first()
        big = await tasks[0]
        assert entered == ["first", "other", "big"]
        big()
        (await tasks[1])()
        assert room._held.keys() == {OTHER}
        assert room._waiting == {}

    asyncio.run(story())


def test_whoever_goes_while_he_waits_or_enters_leaves_nothing_behind():
    async def story():
        room = LaunchRoom(10)
        leave = await room.take(ONE, 10)
        gone, enters, stays = (asyncio.ensure_future(room.take(ONE, 8)) for _ in range(3))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait({gone})
        leave()
        enters.cancel()  # it has its room, and does not know yet
        (await stays)()
        assert gone.cancelled()
        assert enters.cancelled()
        assert (room._held, room._waiting) == ({}, {})

    asyncio.run(story())


def test_what_has_no_content_takes_room_and_gives_it_back_too():
    async def story():
        room = LaunchRoom(2)
        leaves = [await room.take(ONE, 0) for _ in range(2)]
        third = asyncio.ensure_future(room.take(ONE, 0))
        await asyncio.sleep(0)
        assert not third.done()
        for leave in leaves:
            leave()
        (await third)()
        assert (room._held, room._waiting) == ({}, {})

    asyncio.run(story())


def test_whoever_goes_just_when_there_is_room_leaves_it_to_the_next():
    async def story():
        room = LaunchRoom(10)
        leave = await room.take(ONE, 10)
        gone, stays = (asyncio.ensure_future(room.take(ONE, 8)) for _ in range(2))
        await asyncio.sleep(0)
        gone.cancel()
        leave()
        (await stays)()
        assert gone.cancelled()
        assert (room._held, room._waiting) == ({}, {})

    asyncio.run(story())
