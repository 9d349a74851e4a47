"""The steady load of a chaos run: ``python chaos_load.py SOCKET HOME LEDGER SEED``.

Until it is told to end (SIGTERM) it submits jobs, one request after another, and keeps a ledger of
its own: what it sent before it sends it, and what was acknowledged when it was, each synced to the
disk. Jobs write what they do to a file for each element.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from xce.client.rest import Api, ProblemError, UnreachableError, make_key

THINK_S = 0.06
PATIENCE_S = 60.0
"""So long a request is tried before it is begun again, under the same key."""
EXCUSES = ("journal-full", "journal-away", "overloaded")
"""Codes of refusals by a cluster that cannot write; what was refused must never be there."""


class Sent(NamedTuple):
    """A job that was to be submitted."""

    name: str
    size: int
    """Elements; 0: no array."""
    code: int
    rerunnable: bool

    @property
    def indices(self) -> list[int]:
        """The indices of its elements; 0 without an array."""
        return list(range(1, self.size + 1)) or [0]


def command_of(home: str, sleep_s: float, code: int) -> str:
    """Return the text of a job that writes down that it began and that it came to its end."""
    file = f"{home}/marks/$LSB_JOBID.$LSB_JOBINDEX"
    begin, end = (f'echo "{word} $XCE_ATTEMPT" >>{file}' for word in "be")
    pause = f"sleep {sleep_s}; " if sleep_s else ""
    return f"{begin}; {pause}{end}; exit {code}"


class Ledger(NamedTuple):
    """What a load has kept."""

    acknowledged: dict[int, Sent]
    sent: frozenset[str]
    """Every name that was sent."""
    refused: frozenset[str]


def load_ledger(path: Path) -> Ledger:
    """Return what a load has kept.

    Raises:
        AssertionError: An id was given twice, or the cluster refused for another reason than that
            it could not write.
    """
    acknowledged: dict[int, Sent] = {}
    sent: dict[str, Sent] = {}
    refused: set[str] = set()
    for line in path.read_text().splitlines():
        word, *rest = json.loads(line)
        if word == "sent":
            sent[rest[0]] = Sent(*rest)
        elif word == "refused":
            name, code = rest
            assert code in EXCUSES, f"{name} was refused: {code}"
            refused.add(name)
        else:
            name, job = rest
            assert job not in acknowledged, f"job {job} was acknowledged twice"
            acknowledged[job] = sent[name]
    return Ledger(acknowledged, frozenset(sent), frozenset(refused))


class Load:
    """Submits until it is told to end."""

    def __init__(self, socket: str, home: str, ledger: str, seed: int) -> None:
        self._api = Api(socket, wait_s=PATIENCE_S)
        self._home = home
        self._file = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._rng = random.Random(seed)
        self._count = 0
        self._is_over = False
        signal.signal(signal.SIGTERM, self._end)

    def _end(self, *_: object) -> None:
        self._is_over = True

    def _note(self, *words: object) -> None:
        os.write(self._file, json.dumps(words).encode() + b"\n")
        os.fsync(self._file)

    def run(self) -> None:
        """Submit one request after another."""
        while not self._is_over:
            jobs = [self._draw() for _ in range(self._rng.choice((1, 1, 1, 3)))]
            for one, _ in jobs:
                self._note("sent", *one)
            results = self._submit([body for _, body in jobs])
            for (one, _), result in zip(jobs, results, strict=True):
                if "jobid" in result:
                    self._note("acknowledged", one.name, int(result["jobid"]))
                else:
                    self._note("refused", one.name, result["error"]["code"])
            time.sleep(self._rng.uniform(0, 2 * THINK_S))

    def _submit(self, bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return what came of a request; whoever is not answered asks until he is."""
        key = make_key()
        while True:
            try:
                answer = self._api.call("POST", "/jobs", document={"jobs": bodies}, key=key)
                return list(answer["results"])
            except ProblemError as error:
                return [{"error": {"code": error.code}}] * len(bodies)
            except UnreachableError:
                continue

    def _draw(self) -> tuple[Sent, dict[str, Any]]:
        self._count += 1
        rng = self._rng
        one = Sent(
            f"load-{self._count}",
            rng.choice((0, 0, 0, rng.randint(2, 6))),
            rng.choice((0, 0, 0, 3)),
            rng.random() < 0.4,
        )
        sleep_s = rng.choice((0, 0, 0.1, 0.5, 2.0))
        body: dict[str, Any] = {
            "command": command_of(self._home, sleep_s, one.code), "cwd": self._home, "env": [],
            "umask": 0o022, "name": one.name, "rerunnable": one.rerunnable,
        }  # fmt: skip
        if one.size:
            body["array"] = f"1-{one.size}"
        return one, body


if __name__ == "__main__":
    Load(*sys.argv[1:4], int(sys.argv[4])).run()
