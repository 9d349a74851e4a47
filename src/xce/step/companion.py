"""The step's companion on a host: finds free ports, answers at them, looks whether tasks are ready.

``python -I -S <this file> HOST PORTS``. It says where the host is found and which ports are free,
then answers what comes on its input, one JSON object a line each, until that ends. It lives as long
as the step needs the host, so that its end tells that the host is lost.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from typing import Any, Final

_RESOLVE_S: Final = 2.0
_ANSWER_MAX: Final = 4096
_WORD_MAX: Final = 64
_WORD_S: Final = 1.0
_COMERS_MAX: Final = 1024
_LOOPBACK: Final = ("127.0.0.1", "::1")
_lock = threading.Lock()


def main(arguments: list[str]) -> int:
    """Serve until the input ends."""
    host, count = arguments[0], int(arguments[1])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        # The whole job is sent these; who ends us closes our input.
        signal.signal(number, _pass)
    held = hold_ports(count)
    _say({"address": find_address(host), "ports": list(held)})
    for line in sys.stdin.buffer:
        ask: dict[str, Any] = json.loads(line)
        if "free" in ask:
            free = held.pop(ask["free"], None)
            if free is not None:
                free.close()
        elif ask["kind"] == "open":
            _say({"id": ask["id"], "why": open_door(held, ask["port"], ask["word"])})
        elif ask["kind"] == "close":
            _say({"id": ask["id"], "why": close_door(held, ask["port"])})
        else:
            threading.Thread(target=_answer, args=(ask,), daemon=True).start()
    return 0


def hold_ports(count: int) -> dict[int, socket.socket]:
    """Return free ports, bound so that nobody else is given them."""
    held = [_hold_port(0) for _ in range(count)]
    return {one.getsockname()[1]: one for one in held}


def _hold_port(port: int) -> socket.socket:
    one = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("", port))
    return one


def open_door(held: dict[int, socket.socket], port: int, word: str) -> str:
    """Answer those who come to a held port and say a word; return why that cannot be."""
    try:
        held[port].listen(_COMERS_MAX)
    except OSError as error:
        return f"port {port} cannot be had: {error.strerror}"
    threading.Thread(target=_keep_door, args=(held[port], word.encode()), daemon=True).start()
    return ""


def close_door(held: dict[int, socket.socket], port: int) -> str:
    """Answer nobody any more, and hold the port; return why that cannot be."""
    with held.pop(port) as door, contextlib.suppress(OSError):
        door.shutdown(socket.SHUT_RDWR)  # ends the wait of whoever keeps it
    try:
        held[port] = _hold_port(port)
    except OSError as error:
        return f"port {port} cannot be had again: {error.strerror}"
    return ""


def _keep_door(door: socket.socket, word: bytes) -> None:
    with contextlib.suppress(OSError):
        while True:
            channel, _ = door.accept()
            answer_word(channel, word)


def answer_word(channel: socket.socket, word: bytes) -> None:
    """Answer who has come, if he says the word; he tells himself what goes wrong."""
    with channel, contextlib.suppress(OSError):
        channel.settimeout(_WORD_S)
        if channel.recv(_WORD_MAX) == word:
            channel.sendall(b"xce")


def find_address(host: str) -> str:
    """Return a name by which this host is found: that of the cluster, its own, or itself."""
    found: list[str] = []

    def look() -> None:
        for name in dict.fromkeys((host, socket.gethostname())):
            try:
                socket.getaddrinfo(name, None)
            except OSError:
                continue
            found.append(name)
            return

    # A name server that does not answer must not hold up the step.
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(_RESOLVE_S)
    return found[0] if found else _LOOPBACK[0]


def _answer(ask: dict[str, Any]) -> None:
    why = look_once(ask["kind"], ask["target"], ask["timeout_s"], ask.get("env"), ask.get("cwd"))
    _say({"id": ask["id"], "why": why})


def look_once(
    kind: str, target: str, timeout_s: float, env: dict[str, str] | None, cwd: str | None
) -> str:
    """Return why something is not ready; empty: it is."""
    try:
        if kind == "exec":
            return _run(target, timeout_s, env, cwd)
        port, slash, path = target.partition("/")
        return _connect(int(port), timeout_s, f"/{path}" if slash or kind == "http" else "")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        return reason or str(error) or type(error).__name__


def _run(command: str, timeout_s: float, env: dict[str, str] | None, cwd: str | None) -> str:
    with subprocess.Popen(
        ["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, env=env, cwd=cwd or None, process_group=0,
    ) as child:  # fmt: skip
        try:
            code = child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            return f"no answer within {timeout_s:g} s"
    return f"exit code {code}" if code else ""


def _connect(port: int, timeout_s: float, path: str) -> str:
    problem: OSError | None = None
    for address in _LOOPBACK:
        try:
            with socket.create_connection((address, port), timeout_s) as connection:
                return _ask(connection, path) if path else ""
        except OSError as error:
            problem = problem or error
    assert problem is not None
    raise problem


def _ask(connection: socket.socket, path: str) -> str:
    request = f"GET {path} HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    connection.sendall(request.encode("ascii", "replace"))
    answer = b""
    while b"\r\n" not in answer and len(answer) < _ANSWER_MAX:
        content = connection.recv(_ANSWER_MAX)
        if not content:
            break
        answer += content
    words = answer.split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        return "no answer of HTTP"
    status = int(words[1])
    return "" if 200 <= status < 400 else f"HTTP status {status}"


def _say(word: dict[str, Any]) -> None:
    content = json.dumps(word, separators=(",", ":")).encode() + b"\n"
    with _lock:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()


def _pass(*_: object) -> None:
    """Take a signal and do nothing."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
