"""`xce logs`: the daemons' JSON lines as lines for people, in the order of their time."""

import json
import re
import sys
import time
from pathlib import Path

from xce.config.report import render_allowed
from xce.daemon.paths import find_layout
from xce.daemon.settings import Settings

_TAIL_BYTES = 1 << 20
_LOOK_S = 0.2
_AT = re.compile(r'{"at": (?:"([^"]*)"|([0-9.]+))')
_SHOWN_FIRST = ("at", "level", "component", "event")


def run_logs(
    settings: Settings, *, daemon: str | None, count: int, follow: bool, as_json: bool
) -> int:
    """Print the last lines of one daemon's log, or of all; with ``follow`` go on until Ctrl-C."""
    directory = find_layout(settings.state_dir).log
    names = sorted(path.stem for path in directory.glob("*.log"))
    chosen = names if daemon is None else [name for name in names if _is_meant(name, daemon)]
    if not chosen:
        what = f"no log of {daemon!r}; {render_allowed(daemon, names)}" if daemon else "no logs"
        print(f"xce logs: {what} in {directory}", file=sys.stderr)
        return 1
    tails = [_Tail(directory / f"{name}.log") for name in chosen]
    lines = sorted((line for tail in tails for line in tail.last(count)), key=_instant)
    for line in lines[-count:] if count else []:
        print(render_line(line, as_json=as_json))
    try:
        while follow:
            sys.stdout.flush()
            time.sleep(_LOOK_S)
            for line in sorted((line for tail in tails for line in tail.news()), key=_instant):
                print(render_line(line, as_json=as_json))
    except KeyboardInterrupt:
        print()
    return 0


def render_line(line: str, *, as_json: bool) -> str:
    """Return a log line for people; what is no JSON (a trace) stays as it is."""
    if as_json:
        return line
    try:
        entry = json.loads(line)
    except ValueError:
        return line
    if not isinstance(entry, dict) or "event" not in entry:
        return line
    rest = " ".join(
        f"{key}={_brief(value)}" for key, value in entry.items() if key not in _SHOWN_FIRST
    )
    head = f"{_iso(entry.get('at'))} {entry.get('level', ''):7} {entry.get('component', ''):14}"
    return f"{head} {entry['event']} {rest}".rstrip()


class _Tail:
    """The end of a file that grows, and may be cut or replaced."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._inode = 0

    def last(self, count: int) -> list[str]:
        """Return the last lines, and remember where they end."""
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, 2)
                start = max(0, size - _TAIL_BYTES)
                file.seek(start)
                content = file.read(size - start)
                self._inode = self._path.stat().st_ino
        except OSError:
            return []
        self._offset = start + content.rfind(b"\n") + 1
        lines = content[: self._offset - start].decode("utf-8", "replace").splitlines()
        return lines[-count:] if count else []

    def news(self) -> list[str]:
        """Return the whole lines written since the last look."""
        try:
            found = self._path.stat()
            if found.st_ino != self._inode or found.st_size < self._offset:
                self._offset, self._inode = 0, found.st_ino
            if found.st_size == self._offset:
                return []
            with self._path.open("rb") as file:
                file.seek(self._offset)
                content = file.read(found.st_size - self._offset)
        except OSError:
            return []
        end = content.rfind(b"\n") + 1
        self._offset += end
        return content[:end].decode("utf-8", "replace").splitlines()


def _is_meant(name: str, daemon: str) -> bool:
    """Return whether a log is the daemon's: ``worker`` means every worker."""
    return name == daemon or name.startswith(f"{daemon}-")


def _instant(line: str) -> str:
    """Return the time of a line; lines without one sort to the end of what is shown."""
    match = _AT.match(line)
    if match is None:
        return "9"
    return _iso(match[1]) if match[1] else _iso(float(match[2]))


def _iso(at: object) -> str:
    """Return an instant as ISO 8601; the shepherd writes seconds since the epoch."""
    if not isinstance(at, float | int):
        return str(at or "")
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))
    return f"{whole}.{int(at % 1 * 1000):03d}Z"


def _brief(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return json.dumps(text) if " " in text or not text else text
