"""A small HTTP server on a unix socket that answers as a test tells it; the commands run on it."""

import json
import shutil
import socket
import tempfile
import threading
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from xce.cli.lsf.front import run


class Request:
    def __init__(self, method, path, query, headers, body):
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        self.body = body

    def json(self):
        return json.loads(self.body)


class FakeApi:
    """Routes are ``"GET /jobs" -> answer``; an answer is a JSON value, ``(status, headers, body)``,
    an exception class that ends the connection, or a function of the request that returns one."""

    def __init__(self, routes=None):
        self.routes = dict(routes or {})
        self.requests = []
        self.seq = 7
        self.connections = 0
        self.directory = tempfile.mkdtemp(prefix="xf")
        self.path = f"{self.directory}/api.sock"
        self._server = None
        self._threads = []

    def start(self):
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(self.path)
        self._server.listen(16)
        thread = threading.Thread(target=self._accept, daemon=True)
        thread.start()
        self._threads.append(thread)
        return self

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        if self._server is not None:
            self._server.shutdown(socket.SHUT_RDWR)
            self._server.close()
        for thread in self._threads:
            thread.join(5)
        shutil.rmtree(self.directory)

    def _accept(self):
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _serve(self, connection):
        with connection, connection.makefile("rb") as stream:
            while True:
                line = stream.readline()
                if not line:
                    return
                method, target, _ = line.decode().split(" ", 2)
                headers = {}
                while (text := stream.readline().decode().rstrip("\r\n")) != "":
                    name, _, value = text.partition(":")
                    headers[name.lower()] = value.strip()
                body = stream.read(int(headers.get("content-length", "0")))
                parts = urlsplit(target)
                path = unquote(parts.path).removeprefix("/xce/v1")
                request = Request(method, path, dict(parse_qsl(parts.query)), headers, body)
                self.requests.append(request)
                if not self._answer(connection, request):
                    return

    def _answer(self, connection, request):
        answer = self.routes.get(f"{request.method} {request.path}", (404, {}, {"detail": "none"}))
        if callable(answer) and not isinstance(answer, type):
            answer = answer(request)
        if isinstance(answer, type):
            return False
        if isinstance(answer, bytes):
            connection.sendall(answer)
            return False
        status, headers, body = answer if isinstance(answer, tuple) else (200, {}, answer)
        if not isinstance(body, bytes):
            body = json.dumps(body).encode() if body is not None else b""
        head = f"HTTP/1.1 {status} X\r\nXCE-Seq: {self.seq}\r\nContent-Length: {len(body)}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        connection.sendall(head.encode() + b"\r\n" + body)
        return True


def run_command(module, words, routes=None, environ=None, api=None):
    """Run a command; return its status, stdout and stderr."""
    out, err = [], []

    def go(fake):
        runtime = f"{fake.directory}/runtime"
        Path(runtime).mkdir(mode=0o700, exist_ok=True)
        settings = {
            "XCE_API_SOCKET": fake.path,
            "XCE_WAIT_DAEMON": "0",
            "XDG_RUNTIME_DIR": runtime,
            "HOME": "/home/u",
            **(environ or {}),
        }
        return run(
            words,
            module.OPTIONS,
            module.USAGE,
            module.execute,
            settings,
            write_out=out.append,
            write_err=err.append,
            until_word=module.__name__.endswith(("bsub", "explain.main")),
        )

    if api is not None:
        status = go(api)
    else:
        with FakeApi(routes) as fake:
            status = go(fake)
    return status, b"".join(out).decode(), b"".join(err).decode("utf-8", "surrogateescape")
