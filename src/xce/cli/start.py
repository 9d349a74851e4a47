"""The start of `xce`, `xcecli` and `xceadmin` as an installer's scripts call them.

Their modules take a while to load; until they can answer an interrupt, it ends the process as it
ends any other program's, without a word.
"""

import signal
from collections.abc import Callable
from importlib import import_module
from typing import cast


def run_xce() -> int:
    """Run ``xce``; return its exit status."""
    return _run("xce.cli.xce.main")


def run_xcecli() -> int:
    """Run ``xcecli``; return its exit status."""
    return _run("xce.cli.xcecli.main")


def run_xceadmin() -> int:
    """Run ``xceadmin``; return its exit status."""
    return _run("xce.cli.xceadmin.main")


def _run(module: str) -> int:
    heeds = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heeds:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    main = cast("Callable[[], int]", import_module(module).main)
    if heeds:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return main()
