"""Comparison with a kept text; ``XCE_GOLDEN=write`` writes it anew."""

import os
from pathlib import Path


def check_golden(path: Path, text: str) -> None:
    if os.environ.get("XCE_GOLDEN") == "write":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
