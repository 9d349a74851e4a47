import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from xce.net.ask import ConnectionLostError, Requests
from xce.net.frame import WireError
from xce.net.message import Answer, Blobs, FetchBlobs, Message, Ping


class Sent:
    """Keeps what is sent."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.is_open = is_open
        self.messages: list[Message] = []

    def send(self, message: Message) -> None:
        self.messages.append(message)


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(coroutine)


def fetch(number: int) -> FetchBlobs:
    return FetchBlobs(number, ())


def test_answers_find_their_request_in_any_order() -> None:
    async def story() -> None:
        requests, sent = Requests(), Sent()
        first = requests.start(sent, fetch)
        second = requests.start(sent, fetch)
        assert sent.messages == [FetchBlobs(1, ()), FetchBlobs(2, ())]
        assert requests.settle(Blobs(2, (("b", b""),)))
        assert requests.settle(Blobs(1, (("a", b""),)))
        assert await first == Blobs(1, (("a", b""),))
        assert await second == Blobs(2, (("b", b""),))
        assert len(requests) == 0

    run(story())


def test_what_is_no_answer_is_left_to_the_caller() -> None:
    assert not Requests().settle(Ping(1))


def test_an_answer_that_nobody_waits_for_is_dropped() -> None:
    async def story() -> None:
        requests = Requests()
        assert requests.settle(Answer(5, 1))
        waiting = requests.start(Sent(), fetch)
        waiting.cancel()
        await asyncio.sleep(0)
        assert len(requests) == 0
        assert requests.settle(Blobs(1, ()))

    run(story())


def test_a_lost_connection_fails_all_requests() -> None:
    async def story() -> None:
        requests = Requests()
        waiting = [requests.start(Sent(), fetch) for _ in range(3)]
        requests.fail_all("connection lost: reset")
        for one in waiting:
            with pytest.raises(ConnectionLostError, match="reset"):
                await one
        assert len(requests) == 0

    run(story())


def test_ids_go_on_over_a_reconnect() -> None:
    async def story() -> None:
        requests, sent = Requests(), Sent()
        requests.start(sent, fetch)
        requests.fail_all("lost")
        again = requests.start(sent, fetch)
        assert requests.settle(Blobs(1, ()))
        assert not again.done()
        requests.settle(Blobs(2, ()))
        assert await again == Blobs(2, ())

    run(story())


def test_a_request_over_a_closed_connection_is_refused() -> None:
    async def story() -> None:
        with pytest.raises(ConnectionLostError, match="not connected"):
            await Requests().request(Sent(is_open=False), fetch)

    run(story())


def test_a_request_waits_only_so_long() -> None:
    async def story() -> None:
        requests = Requests()
        with pytest.raises(TimeoutError):
            await requests.request(Sent(), fetch, timeout_s=0.001)
        await asyncio.sleep(0)
        assert len(requests) == 0

    run(story())


def test_a_request_that_cannot_be_sent_is_forgotten() -> None:
    class Refusing(Sent):
        def send(self, message: Message) -> None:
            raise WireError("larger than a frame may be")

    async def story() -> None:
        requests = Requests()
        with pytest.raises(WireError, match="larger"):
            await requests.request(Refusing(), fetch)
        await asyncio.sleep(0)
        assert len(requests) == 0

    run(story())
