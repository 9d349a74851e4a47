"""What is looked at before the tasks of a job start, so that a fault has a name and not a hang.

Ranks are unique; every host reaches the first one at the port at which the tasks are to meet; every
host has the GPUs that the job was given there. All hosts are looked at side by side.
"""

import contextlib
import os
import select
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Final

from xce.client.launching import check_ranks
from xce.client.ranks import Rank, hosts_of
from xce.client.tasks import FAILED, OUT, OVER, Task, Tasks
from xce.step.companion import answer_word

PATIENCE_S: Final = 25.0
"""So long all of it may take."""
REACH_S: Final = 10.0
PROBE: Final = 'exec "$XCE_LAUNCH_PYTHON" -IS "$XCE_LAUNCH_START" probe "$@"'
_LOOK_S: Final = 0.1


class Door:
    """Listens where the tasks are to meet, until the preflight is over.

    Raises:
        OSError: It cannot.
    """

    def __init__(self, port: int, word: str) -> None:
        self._word = word.encode()
        self._socket = socket.create_server(("", port), backlog=1024)

    def fileno(self) -> int:
        """Return what is readable when somebody has come."""
        return self._socket.fileno()

    def close(self) -> None:
        """Leave the port to the tasks."""
        self._socket.close()

    def answer(self) -> None:
        """Answer who has come."""
        with contextlib.suppress(OSError):  # whoever came is gone; it tells itself
            answer_word(self._socket.accept()[0], self._word)


def look_at_hosts(ranks: Sequence[Rank], tasks: Tasks, environ: Mapping[str, str]) -> list[str]:
    """Return what is wrong, a line for each host; nothing: the tasks may start."""
    trouble = check_ranks(ranks, environ)
    if trouble:
        return [trouble]
    hosts = hosts_of(ranks)
    address, port = environ.get("MASTER_ADDR", ""), environ.get("MASTER_PORT", "")
    if not port:
        return []
    word = os.urandom(8).hex()
    try:
        door = Door(int(port), word)
    except OSError as error:
        return [f"host {hosts[0]}: port {port} cannot be had: {error.strerror}"]
    try:
        arguments = [address, port, word, str(REACH_S)]
        own = [
            tasks.start(host, ["/bin/sh", "-c", PROBE, "probe", *arguments], env=environ, cwd="/")
            for host in hosts
        ]
        return _wait(tasks, own, door)
    finally:
        door.close()


def _wait(tasks: Tasks, own: Sequence[Task], door: Door) -> list[str]:
    said = {task.name: b"" for task in own}
    left = {task.name: task for task in own}
    found: list[str] = []
    until = time.monotonic() + PATIENCE_S
    while left and time.monotonic() < until:
        ready, _, _ = select.select([door.fileno(), tasks.fileno()], [], [], _LOOK_S)
        if door.fileno() in ready:
            door.answer()
        for event in tasks.serve(0.0):
            task = event.task
            if event.kind == OUT:
                said[task.name] += event.content
            elif event.kind == FAILED:
                left.pop(task.name, None)
                found.append(event.content.decode(errors="replace"))
            elif event.kind == OVER:
                left.pop(task.name, None)
                if event.code:
                    text = said[task.name].decode(errors="replace").strip()
                    found.append(f"host {task.host}: {text or f'exit code {event.code}'}")
    found += [f"host {task.host}: it does not answer" for task in left.values()]
    return found
