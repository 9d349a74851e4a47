"""REST for the commands: HTTP/1.1 over the cluster's unix socket, standard library only.

No ``http.client``, no ``socket``: a command must start in little more than the interpreter itself
needs. One connection is kept for all requests of a command. What fails before the cluster has
answered is tried again for ``wait_s`` seconds: reads always, writes under the idempotency key that
they carry, so that a write is done once however often it is sent.
"""

from __future__ import annotations

import _socket
import os
import time

from xce.client.json_text import parse_json, render_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from xce.client.seen import SeenSeq

WAIT_S = 60.0
"""How long an unreachable cluster is tried by default."""
READ_TIMEOUT_S = 90.0
"""Silence after which a connection counts as lost; the server answers within 60 s."""
PREFIX = "/xce/v1"
PROGRESS = "Cannot connect to XCE. Please wait ..."
_PROGRESS_AFTER_S = 1.0
_PROGRESS_EVERY_S = 5.0
_PAUSE_FIRST_S = 0.05
_PAUSE_MAX_S = 2.0
_SOCKET_PATH_MAX = 107
_RECEIVE = 1 << 18
_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~,/")
_LATER = 429
_BUSY = frozenset((_LATER, 502, 503, 504))
_UNDECIDED = "the journal cannot be written"
_UNREAD = "the history cannot be read"
"""How troubles begin that are not the connection's."""
_FINAL_CODES = frozenset(("journal-full", "unreachable-host", "not-built"))
"""Refusals that waiting a minute does not cure, though their status says "try later"."""


class UnreachableError(Exception):
    """The cluster gave no answer in the time it was given."""


class ProblemError(Exception):
    """The cluster answered with a problem document."""

    def __init__(self, status: int, document: dict[str, Any]) -> None:
        """Keep the document; its ``detail`` is the text, with the place of what is wrong."""
        self.status = status
        self.code = str(document.get("code") or "")
        self.lsf = str(document.get("lsf") or "")
        text = str(document.get("detail") or document.get("title") or f"status {status}")
        column = document.get("column")
        if column and "column" not in text:
            text = f"{text.rstrip('.')} (column {column})"
        self.text = text
        super().__init__(self.text)


class Answer:
    """One whole answer. Names of headers are in lower case."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """Keep the parts."""
        self.status = status
        self.headers = headers
        self.body = body

    def value(self) -> Any:  # noqa: ANN401 - any JSON value
        """Return the body's JSON value, ``None`` for an empty body.

        Raises:
            ValueError: The body is no JSON.
        """
        return parse_json(self.body.decode("utf-8", "replace")) if self.body else None


class _LostError(OSError):
    """The connection ended inside an answer."""


def make_key() -> str:
    """Return a new idempotency key: the time of the first try, then 16 random hex digits."""
    return f"{int(time.time())}-{os.urandom(8).hex()}"


def quote(text: str) -> str:
    """Return ``text`` as it stands in a path or query."""
    return "".join([chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in os.fsencode(text)])


def render_query(pairs: Sequence[tuple[str, str]]) -> str:
    """Return the query string of ``pairs``, with its question mark; empty without pairs."""
    text = "&".join([f"{name}={quote(value)}" for name, value in pairs])
    return f"?{text}" if text else ""


class Api:
    """A cluster's REST interface, over one kept connection."""

    def __init__(
        self,
        path: str,
        *,
        wait_s: float = WAIT_S,
        seen: SeenSeq | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        """Args: the socket; how long to try; where the last seq is kept; who is told of waiting."""
        self.path = path
        self._wait_s = wait_s
        self._seen = seen
        self._progress = progress
        self._socket: _socket.socket | None = None
        self._buffer = bytearray()
        self._known_seq = seen.load() if seen is not None else 0
        self._min_seq = self._known_seq
        self._since = 0.0
        self._pause_s = _PAUSE_FIRST_S
        self._told_at = 0.0
        self.trouble = ""
        """Why the cluster can write nothing, as of the last answer; empty: it can."""

    def __enter__(self) -> Api:  # noqa: PYI034 - typing is not imported
        """Return itself; the connection is closed at the end of the block."""
        return self

    def __exit__(self, *trouble: object) -> None:
        """Close the connection."""
        self.close()

    def call(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        document: object = None,
        *,
        key: str = "",
        repeatable: bool = True,
        in_runs: bool = False,
    ) -> Any:  # noqa: ANN401 - any JSON value
        """Send one request below ``/xce/v1``; return the JSON value of the answer.

        ``in_runs``: one result with a ``count`` may stand for jobs with ids that follow each other.

        Raises:
            ProblemError: The cluster refused.
            UnreachableError: It could not be asked.
        """
        body = render_json(document).encode() if document is not None else None
        headers = [("Idempotency-Key", key)] if key else []
        if in_runs:
            headers.append(("XCE-Runs", "1"))
        answer = self.request(method, path, query, body, headers, repeatable=repeatable)
        try:
            value = answer.value()
        except ValueError as error:
            raise ProblemError(
                answer.status, {"detail": f"XCE's answer cannot be read: {error}"}
            ) from None
        if answer.status >= 400:
            raise ProblemError(answer.status, value if isinstance(value, dict) else {})
        return value

    def request(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]] = (),
        body: bytes | None = None,
        headers: Sequence[tuple[str, str]] = (),
        *,
        repeatable: bool = True,
    ) -> Answer:
        """Send one request and return the whole answer, whatever its status.

        A write that is not ``repeatable`` is never sent twice: a connection that is lost after
        sending is an error at once.

        Raises:
            UnreachableError: No answer within the time that was given.
        """
        while True:
            text = self._render(method, path, query, body, headers)
            sent = False
            was_open = self._socket is not None
            try:
                self._connect()
                self._send(text)
                sent = True
                answer = self._receive()
            except OSError as error:
                self.close()
                if sent and not repeatable:
                    raise UnreachableError(
                        "The connection was lost; whether the request was carried out is not known"
                    ) from error
                if not was_open:  # else the server closed a connection that had been idle
                    self._wait_for_retry(error.strerror or str(error))
                continue
            # Who was told to come later has had nothing done yet.
            trouble = _busy(answer) if repeatable or answer.status == _LATER else ""
            if trouble:
                self._min_seq = 0
                self._wait_for_retry(
                    trouble,
                    after_s=_retry_after(answer.headers),
                    is_told=answer.status == _LATER,
                )
                continue
            self._note_success(answer, is_write=method != "GET")
            return answer

    def stream(self, path: str, query: Sequence[tuple[str, str]] = ()) -> Iterator[bytes]:
        """Yield the answer's body as it arrives.

        Raises:
            ProblemError: The cluster refused.
            UnreachableError: It could not be asked, or the connection was lost on the way.
        """
        status, headers = self._open_stream(path, query)
        try:
            parts = self._body(status, headers)
            if status >= 400:
                answer = Answer(status, headers, b"".join(parts))
                value = answer.value()
                raise ProblemError(status, value if isinstance(value, dict) else {})
            yield from parts
        except OSError as error:
            self.close()
            raise UnreachableError("The connection was lost") from error

    def _open_stream(
        self, path: str, query: Sequence[tuple[str, str]]
    ) -> tuple[int, dict[str, str]]:
        """Return status and headers of an answer whose body has not been read."""
        while True:
            was_open = self._socket is not None
            try:
                self._connect()
                self._send(self._render("GET", path, query, None, ()))
                status, headers = self._receive_head()
                if status != _LATER:
                    return status, headers
                for _ in self._body(status, headers):
                    pass
                self._wait_for_retry(
                    "too many requests", after_s=_retry_after(headers), is_told=True
                )
            except OSError as error:
                self.close()
                if not was_open:
                    self._wait_for_retry(error.strerror or str(error))

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._buffer.clear()

    def _render(
        self,
        method: str,
        path: str,
        query: Sequence[tuple[str, str]],
        body: bytes | None,
        headers: Sequence[tuple[str, str]],
    ) -> bytes:
        """Return the bytes of a request."""
        lines = [f"{method} {PREFIX}{path}{render_query(query)} HTTP/1.1", "Host: xce"]
        lines += [f"{name}: {value}" for name, value in headers]
        lines += self._authorization()
        if method == "GET" and self._min_seq:
            lines.append(f"XCE-Min-Seq: {self._min_seq}")
        if body is not None:
            if not any(name == "Content-Type" for name, _ in headers):
                lines.append("Content-Type: application/json")
            lines.append(f"Content-Length: {len(body)}")
        head = "\r\n".join(lines) + "\r\n\r\n"
        return head.encode("ascii") + (body or b"")

    def _authorization(self) -> list[str]:
        """Return what says who asks, as lines; over the unix socket the kernel does."""
        return []

    def _connect(self) -> None:
        """Open the connection, unless there is one."""
        if self._socket is not None:
            return
        path = os.fsencode(self.path)
        if len(path) > _SOCKET_PATH_MAX:
            directory, _, name = self.path.rpartition("/")
            try:
                path = os.fsencode(f"{os.readlink(directory)}/{name}")
            except OSError:
                raise UnreachableError(f"{self.path}: too long for a socket's path") from None
        opened = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
        try:
            opened.settimeout(READ_TIMEOUT_S)
            opened.connect(path)
        except PermissionError as error:
            opened.close()
            raise UnreachableError(
                f"{self.path}: {error.strerror}; this cluster is run by somebody else for himself"
            ) from error
        except NotADirectoryError as error:
            opened.close()
            raise UnreachableError(
                f"{self.path}: {error.strerror}; XCE_DIR must name a directory"
            ) from error
        except OSError:
            opened.close()
            raise
        self._socket = opened

    def _send(self, text: bytes) -> None:
        if self._socket is None:
            raise _LostError("not connected")
        self._socket.sendall(text)

    def _fill(self) -> bool:
        """Read more into the buffer; return False at the end of the stream."""
        if self._socket is None:
            raise _LostError("not connected")
        part = self._socket.recv(_RECEIVE)
        self._buffer += part
        return bool(part)

    def _receive(self) -> Answer:
        status, headers = self._receive_head()
        return Answer(status, headers, b"".join(self._body(status, headers)))

    def _receive_head(self) -> tuple[int, dict[str, str]]:
        """Return status and headers of the next answer; interim ones are skipped."""
        while True:
            end = self._buffer.find(b"\r\n\r\n")
            while end < 0:
                if not self._fill():
                    raise _LostError("the connection was closed")
                end = self._buffer.find(b"\r\n\r\n")
            lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
            del self._buffer[: end + 4]
            words = lines[0].split(" ", 2)
            if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
                raise _LostError("what answers there is no apiserver")
            headers = {}
            for line in lines[1:]:
                name, _, value = line.partition(":")
                headers[name.strip().lower()] = value.strip()
            if int(words[1]) >= 200:
                return int(words[1]), headers

    def _body(self, status: int, headers: dict[str, str]) -> Iterator[bytes]:
        """Yield the body in parts, as it arrives."""
        if status not in (204, 304):
            length = headers.get("content-length")
            if "chunked" in headers.get("transfer-encoding", "").lower():
                yield from self._chunks()
            elif length is not None:
                yield from self._counted(int(length) if length.isdigit() else 0)
            else:
                while True:
                    if self._buffer:
                        yield self._take(len(self._buffer))
                    if not self._fill():
                        break
                self.close()
        if headers.get("connection", "").lower() == "close":
            self.close()

    def _take(self, size: int) -> bytes:
        part = bytes(self._buffer[:size])
        del self._buffer[:size]
        return part

    def _counted(self, left: int) -> Iterator[bytes]:
        """Yield exactly ``left`` bytes, or fail."""
        while left > 0:
            if not self._buffer and not self._fill():
                raise _LostError("the connection was closed inside an answer")
            part = self._take(left)
            left -= len(part)
            yield part

    def _line(self) -> bytes:
        """Return the next line, without its end."""
        end = self._buffer.find(b"\r\n")
        while end < 0:
            if not self._fill():
                raise _LostError("the connection was closed inside an answer")
            end = self._buffer.find(b"\r\n")
        line = self._take(end)
        del self._buffer[:2]
        return line

    def _chunks(self) -> Iterator[bytes]:
        """Yield the parts of a chunked body."""
        while True:
            size = self._line().split(b";")[0].strip()
            try:
                left = int(size, 16)
            except ValueError:
                raise _LostError("a chunk of an answer has no size") from None
            if left == 0:
                while self._line():
                    pass
                return
            yield from self._counted(left)
            self._line()

    def _note_success(self, answer: Answer, *, is_write: bool) -> None:
        """Start counting afresh, and keep the seq that the answer reflects."""
        self._since = 0.0
        self._pause_s = _PAUSE_FIRST_S
        self.trouble = answer.headers.get("xce-trouble", "")
        seq = answer.headers.get("xce-seq", "")
        if not seq.isdigit():
            return
        # A read that was answered below what it asked for speaks of a cluster that was made anew.
        if (is_write and answer.status < 300) or int(seq) < self._known_seq:
            self._known_seq = self._min_seq = int(seq)
            if self._seen is not None:
                self._seen.store(self._min_seq)

    def _wait_for_retry(self, trouble: str, *, after_s: float = 0.0, is_told: bool = False) -> None:
        """Wait before the next try, at least ``after_s``, or give up.

        Args:
            trouble: Why.
            after_s: How long at least.
            is_told: Whether the cluster itself has said why, so that it is there.

        Raises:
            UnreachableError: The time is over.
        """
        now = time.monotonic()
        is_undecided = trouble.startswith(_UNDECIDED)
        is_told = is_told or is_undecided or trouble.startswith(_UNREAD)
        if not self._since:
            self._since = now
            quiet_s = 0.0 if is_undecided else _PROGRESS_AFTER_S
            self._told_at = now - _PROGRESS_EVERY_S + quiet_s
        left = self._since + self._wait_s - now
        if left <= 0 and is_told:
            raise UnreachableError(_capital(trouble))
        if left <= 0:
            raise UnreachableError(
                f"Cannot connect to XCE at {self.path}: {trouble}. "
                "'xce up' starts a cluster; XCE_DIR names its state directory"
            )
        if self._progress is not None and now - self._told_at >= _PROGRESS_EVERY_S:
            self._told_at = now
            self._progress(f"{_capital(trouble)}. Please wait ..." if is_told else PROGRESS)
        time.sleep(min(max(self._pause_s, after_s), left))
        self._pause_s = min(self._pause_s * 2, _PAUSE_MAX_S)


def _retry_after(headers: dict[str, str]) -> float:
    """Return how long the server wants to be left alone."""
    text = headers.get("retry-after", "")
    return float(text) if text.isdigit() and len(text) < 6 else 0.0


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _busy(answer: Answer) -> str:
    """Return why asking again may help; empty where it does not."""
    if answer.status not in _BUSY:
        return ""
    try:
        document = answer.value()
    except ValueError:
        document = None
    if not isinstance(document, dict):
        return f"status {answer.status}"
    if document.get("code") in _FINAL_CODES:
        return ""
    return str(document.get("detail") or f"status {answer.status}").rstrip(".")
