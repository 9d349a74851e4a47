"""Questions to the history store that may take long: asked in a thread of their own, one by one."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from xce.apiserver.problems import ProblemError, make_problem
from xce.journal.history_reader import HistoryReader
from xce.journal.history_schema import HistoryError
from xce.model.ids import Seq

T = TypeVar("T")
CATCH_UP_S: Final = 2.0
"""How long a question waits until the store has what the asker may have seen."""
_LOOK_S: Final = 0.02


class Archive:
    """The history store, for questions about many jobs.

    Args:
        reader: The store, used by nobody else.
    """

    def __init__(self, reader: HistoryReader) -> None:
        self._reader = reader
        self._thread = ThreadPoolExecutor(1, "history")

    async def ask(self, question: Callable[[HistoryReader], T], *, seq: Seq) -> T:
        """Return the answer to a question, when the store has entry ``seq`` or does not get it.

        Raises:
            ProblemError: The store cannot be read.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + CATCH_UP_S
        try:
            # Another process writes it: nobody tells.
            while await self._run(HistoryReader.seq) < seq and loop.time() < until:  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_S)
            return await self._run(question)
        except HistoryError as error:
            raise ProblemError(
                make_problem("internal", "the history cannot be read now", status=500)
            ) from error

    async def _run(self, question: Callable[[HistoryReader], T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, question, self._reader)

    def close(self) -> None:
        """Close the store."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._reader.close()
