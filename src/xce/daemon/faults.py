"""A fault in a callback of a daemon's loop ends it: the next one begins with what is true."""

import asyncio
import logging


def end_on_fault(log: logging.Logger, event: str, stop: asyncio.Event) -> list[dict[str, object]]:
    """Have faults of the running loop logged as ``event``; each sets ``stop``.

    Returns:
        A list that holds the faults there were.
    """
    faults: list[dict[str, object]] = []

    def fail(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        faults.append(context)
        error = context.get("exception")
        log.error(
            event,
            extra={"why": context.get("message")},
            exc_info=error if isinstance(error, BaseException) else None,
        )
        stop.set()

    asyncio.get_running_loop().set_exception_handler(fail)
    return faults
