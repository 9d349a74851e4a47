"""Questions to the history store: asked in a thread of their own, one by one, so that nobody waits
for a disk or a database but who asked.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from logging import Logger
from typing import Final, TypeVar

from xce.apiserver.problems import HISTORY_AWAY, ProblemError, make_problem
from xce.journal.history_reader import HistoryReader
from xce.journal.history_store import HistoryAwayError, HistoryError
from xce.model.ids import Seq

T = TypeVar("T")
CATCH_UP_S: Final = 2.0
"""How long a question waits until the store has what the asker may have seen."""
_LOOK_S: Final = 0.02


class Archive:
    """The history store, for questions of one kind.

    Args:
        reader: The store, used by nobody else.
        log: Where it is told that it cannot be read.
    """

    def __init__(self, reader: HistoryReader, log: Logger) -> None:
        self._reader = reader
        self._log = log
        self._is_away = False
        """Whether that was told."""
        self._thread = ThreadPoolExecutor(1, "history")

    async def ask(self, question: Callable[[HistoryReader], T], *, seq: Seq = 0) -> T:
        """Return the answer to a question, when the store has entry ``seq`` or does not get it.

        Raises:
            ProblemError: The store cannot be read.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + CATCH_UP_S
        try:
            while seq and loop.time() < until:
                if await self._run(HistoryReader.seq) >= seq:
                    break
                # Another process writes it: nobody tells.
                await asyncio.sleep(_LOOK_S)
            found = await self._run(question)
        except HistoryAwayError as error:
            if not self._is_away:
                self._log.error("history-away", extra={"why": str(error)})
            self._is_away = True
            raise _unreadable(error) from error
        except HistoryError as error:
            self._log.exception("history-not-read")
            raise _unreadable(error) from error
        self._is_away = False
        return found

    async def _run(self, question: Callable[[HistoryReader], T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, question, self._reader)

    def close(self) -> None:
        """Close the store."""
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._reader.close()


def _unreadable(error: HistoryError) -> ProblemError:
    """Return the problem to raise for a store that cannot be read."""
    if isinstance(error, HistoryAwayError):
        problem = make_problem(
            HISTORY_AWAY, "the history cannot be read now: its database is away", status=503
        )
        return ProblemError(problem, retry_after_s=1)
    return ProblemError(make_problem("internal", "the history cannot be read now", status=500))
