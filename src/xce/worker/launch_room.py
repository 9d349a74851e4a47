"""Room in a worker for what processes of jobs have said, and what is not done yet."""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from xce.worker.action import Key

Leave: TypeAlias = Callable[[], None]
"""Gives room back; again does nothing."""


class LaunchRoom:
    """Room for each attempt by itself: whoever says much is heard more slowly, and nobody else.

    Args:
        most_bytes: So many of one attempt; as much as the longest frame at least.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._held: dict[Key, int] = {}
        self._waiting: dict[Key, deque[tuple[int, asyncio.Future[None]]]] = {}

    async def take(self, key: Key, size: int) -> Leave:
        """Wait until there is room for so many bytes behind those that wait already.

        What has none counts as one: it may stand for something all the same.
        """
        size = max(1, size)
        waiting = self._waiting.setdefault(key, deque())
        one = (size, asyncio.get_running_loop().create_future())
        waiting.append(one)
        self._let_in(key)
        try:
            await one[1]
        except asyncio.CancelledError:
            if one in waiting:
                waiting.remove(one)
            elif not one[1].cancelled():
                self._held[key] -= size
            self._let_in(key)
            raise
        left = [size]
        return partial(self._leave, key, left)

    def _leave(self, key: Key, left: list[int]) -> None:
        if left:
            self._held[key] -= left.pop()
            self._let_in(key)

    def _let_in(self, key: Key) -> None:
        """Let those in for whom there is room now."""
        waiting = self._waiting.get(key, ())
        held = self._held.get(key, 0)
        while waiting and (waiting[0][1].cancelled() or held + waiting[0][0] <= self._most):
            size, entered = waiting.popleft()
            if not entered.cancelled():  # else whoever waited goes just now
                held += size
                entered.set_result(None)
        if held:
            self._held[key] = held
        else:
            self._held.pop(key, None)
        if not waiting:
            self._waiting.pop(key, None)
