"""What the preflight runs on each host: is what the job needs there, and can the first be reached?

``probe ADDRESS PORT WORD SECONDS``: says what is wrong in one line, and exits with 1.
"""

import os
import socket
import sys

from xce.client.launching import check_devices


def main() -> int:
    """Look from this host; return 0 when all is well."""
    address, port, word, seconds = sys.argv[1:5]
    trouble = check_devices(os.environ, has_device) or reach(
        address, int(port), word, float(seconds)
    )
    if trouble:
        print(trouble)
    return 1 if trouble else 0


def has_device(number: int) -> bool:
    """Return whether a GPU is there; simulated ones have no device, and then nothing is known."""
    if not os.path.exists("/dev/nvidiactl"):  # noqa: PTH110 - pathlib costs a start twice
        return True
    return os.path.exists(f"/dev/nvidia{number}")  # noqa: PTH110


def reach(address: str, port: int, word: str, seconds: float) -> str:
    """Return why the first host cannot be reached from here; empty: it can."""
    try:
        with socket.create_connection((address, port), timeout=seconds) as channel:
            channel.sendall(word.encode())
            channel.shutdown(socket.SHUT_WR)
            answer = channel.recv(64)
    except OSError as error:
        return f"cannot reach {address}:{port}: {error.strerror or error}"
    return "" if answer == b"xce" else f"somebody else answers at {address}:{port}"
