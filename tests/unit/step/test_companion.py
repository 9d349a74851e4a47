import json
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from xce.step import companion


class Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health?x=1" else 503)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def port():
    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def closed_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def look(kind, target, timeout_s=5.0, env=None, cwd=None):
    return companion.look_once(kind, target, timeout_s, env, cwd)


def test_a_port_that_answers_is_ready(port):
    assert look("tcp", str(port)) == ""
    assert look("tcp", str(closed_port())) == "Connection refused"
    assert "invalid literal" in look("tcp", "")


def test_a_page_is_ready_when_its_status_is_good(port):
    assert look("http", f"{port}/health?x=1") == ""
    assert look("http", str(port)) == "HTTP status 503"


def test_what_does_not_speak_http_is_not_ready():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            one, _ = server.accept()
            one.recv(100)
            one.sendall(b"hello\r\n")
            one.close()

        thread = threading.Thread(target=serve)
        thread.start()
        assert look("http", str(server.getsockname()[1])) == "no answer of HTTP"
        thread.join()


def test_a_command_is_ready_when_it_ends_well(tmp_path):
    env = {"PATH": "/usr/bin:/bin", "A": "x"}
    assert look("exec", 'test "$A" = x', env=env) == ""
    assert look("exec", "exit 3", env=env) == "exit code 3"
    assert look("exec", "sleep 60", 0.1, env=env) == "no answer within 0.1 s"
    assert look("exec", "true", cwd=str(tmp_path / "no")) == "No such file or directory"


@pytest.mark.timeout(60)
def test_a_companion_says_what_is_free_and_answers_until_its_input_ends(port):
    with subprocess.Popen(
        [sys.executable, "-I", "-S", companion.__file__, "no-such-host-of-ours", "2"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        hello = json.loads(process.stdout.readline())
        assert hello["address"]
        assert len(set(hello["ports"])) == 2
        for word in ({"free": hello["ports"][0]},
                     {"id": 7, "kind": "tcp", "target": str(port), "timeout_s": 5}):  # fmt: skip
            process.stdin.write(json.dumps(word).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline()) == {"id": 7, "why": ""}
        process.stdin.close()
        assert process.wait(10) == 0


def knock(port: int, word: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as channel:
        channel.sendall(word)
        channel.shutdown(socket.SHUT_WR)
        return channel.recv(64)


def test_a_door_answers_who_says_the_word_and_is_shut_before_the_port_is_given_on():
    held = companion.hold_ports(2)
    port, other = held
    assert companion.open_door(held, port, "sesame") == ""
    assert [knock(port, b"sesame"), knock(port, b"barley"), knock(port, b"sesame")] == [
        b"xce", b"", b"xce",
    ]  # fmt: skip
    assert companion.close_door(held, port) == ""
    for one in (port, other):
        with pytest.raises(ConnectionRefusedError):
            knock(one, b"sesame")
    assert held[port].getsockname()[1] == port, "it is held all the same"
    for one in held.values():
        one.close()
    socket.create_server(("", port)).close()


def test_a_door_that_somebody_else_keeps_is_said():
    held = companion.hold_ports(1)
    (port,) = held
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        thief.bind(("", port))
        thief.listen()
        said = companion.open_door(held, port, "sesame")
    assert said == f"port {port} cannot be had: Address already in use"
    held[port].close()
