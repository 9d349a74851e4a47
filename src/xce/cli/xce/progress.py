"""One line that tells how far something is: refreshed on a terminal, else a line a change."""

import shutil
import sys
import time
from typing import TextIO


class Progress:
    """Shows the latest of several short texts."""

    def __init__(self, stream: TextIO | None = None, *, every_s: float = 2.0) -> None:
        self._stream = sys.stdout if stream is None else stream
        self._is_terminal = self._stream.isatty()
        self._every_s = every_s
        self._shown = ""
        self._shown_at_s = time.monotonic()
        self._is_open = False

    def show(self, text: str, *, at_once: bool = False) -> None:
        """Show ``text``; off a terminal at most every few seconds, unless ``at_once``."""
        if text == self._shown:
            return
        now_s = time.monotonic()
        if self._is_terminal:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write(f"\r\x1b[K{text[:width]}")
            self._is_open = True
        elif at_once or now_s - self._shown_at_s >= self._every_s:
            self._stream.write(f"{text}\n")
        else:
            return
        self._stream.flush()
        self._shown, self._shown_at_s = text, now_s

    def close(self, text: str | None = None) -> None:
        """End the line; with a text, let that be the last that it says."""
        if text is not None and text != self._shown:
            self._shown_at_s = float("-inf")
            self.show(text, at_once=True)
        if self._is_open:
            self._stream.write("\n")
            self._stream.flush()
            self._is_open = False
