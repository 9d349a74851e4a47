"""Small servers in the place of a model's: `python3 unit.py router|prefill|decode|metrics`.

A router asks a prefill server, then a decode server, and answers with the way that a request took.
Where everybody is stands in the environment, `XCE_ENDPOINTS_<role>`; the own port is `XCE_PORT`.
"""

import itertools
import os
import sys
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LOAD_SECONDS = 1.0


def endpoints(role: str) -> list[str]:
    return os.environ[f"XCE_ENDPOINTS_{role}"].split()


def fetch(endpoint: str) -> str:
    with urllib.request.urlopen(f"http://{endpoint}/", timeout=30) as answer:
        return answer.read().decode().strip()


class Server(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status, text = (200, "ok") if self.path == "/health" else self.answer()
        content = f"{text}\n".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def answer(self) -> tuple[int, str]:
        return 200, f"{os.environ['XCE_ROLE']}.{os.environ['XCE_ROLE_INDEX']}"

    def log_message(self, *_: object) -> None:
        """Do not write a line for each request."""


class Router(Server):
    turns = itertools.count()

    def answer(self) -> tuple[int, str]:
        way = []
        turn = next(self.turns)
        for role in ("prefill", "decode"):
            others = endpoints(role)
            try:
                way.append(fetch(others[turn % len(others)]))
            except OSError as error:
                return 502, f"{role} does not answer: {error}"
        return 200, " > ".join(way)


def watch() -> None:
    while True:
        print("gpus:", os.environ.get("CUDA_VISIBLE_DEVICES", ""), flush=True)
        time.sleep(60)


def main(role: str) -> None:
    if role == "metrics":
        watch()
    if role != "router":
        time.sleep(LOAD_SECONDS)
    server = ThreadingHTTPServer(
        ("", int(os.environ["XCE_PORT"])), Router if role == "router" else Server
    )
    print(f"{role} listens at", endpoints(role)[int(os.environ["XCE_ROLE_INDEX"])], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
