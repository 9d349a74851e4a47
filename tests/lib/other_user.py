"""Somebody else than who runs the tests, and whether he can run what is tested."""

import os
import stat
import sys
from pathlib import Path
from typing import Final

import pytest

IS_ROOT: Final = os.geteuid() == 0
NOBODY: Final = 65534


def why_not() -> str:
    """Return why another user cannot run the code under test; empty: he can."""
    for place in (Path(__file__), Path(sys.prefix)):
        for directory in place.resolve().parents:
            if not directory.stat().st_mode & stat.S_IXOTH:
                return f"other users cannot enter {directory}: have the clone where they can"
    return ""


WHY_NOT: Final = why_not()


def skip_unless_reachable() -> None:
    """Skip the test if another user cannot run the code under test."""
    if WHY_NOT:
        pytest.skip(WHY_NOT)
