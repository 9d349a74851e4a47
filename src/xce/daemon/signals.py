"""How a daemon hears that it shall end: SIGTERM and SIGINT become an event of its loop."""

import asyncio
import signal
from typing import Final

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def stop_event() -> asyncio.Event:
    """Return an event of the running loop that is set when this process is told to end.

    SIGHUP is ignored: a daemon outlives the terminal that started it. SIGPIPE already is.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop.set)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    return stop
