"""A cluster for benchmarks: started, measured from outside by /proc, stopped."""

import http.client
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv" / "bin"
TICK = os.sysconf("SC_CLK_TCK")


class Connection(http.client.HTTPConnection):
    """HTTP over the api socket."""

    def __init__(self, path: Path, timeout: float = 300):
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Cluster:
    """``xce up`` on a directory of its own: 4 hosts of 16 slots unless told otherwise."""

    def __init__(self, hosts: int = 4, slots: int = 16, base: Path | None = None):
        self.dir = Path(tempfile.mkdtemp(prefix="xb", dir=base))
        self.hosts = hosts
        self.slots = slots

    def __enter__(self):
        self.up()
        return self

    def __exit__(self, *_):
        words = [VENV / "xce", "down", "--dir", str(self.dir)]
        done = subprocess.run([*words, "--jobs"], check=False, capture_output=True, timeout=120)
        if done.returncode:
            # Its controller is gone: there is nobody to end the jobs, and the rest goes on.
            subprocess.run(words, check=False, capture_output=True, timeout=120)
        shutil.rmtree(self.dir, ignore_errors=True)

    def up(self):
        if (self.dir / "config").exists():
            subprocess.run(
                [VENV / "xce", "up", "--dir", str(self.dir)],
                check=True,
                capture_output=True,
                timeout=120,
            )
            return
        names = f"bench[1-{self.hosts}]"
        subprocess.run(
            [
                VENV / "xce",
                "up",
                "--dir",
                str(self.dir),
                "--hosts",
                names,
                "--slots",
                str(self.slots),
                "--mem",
                "64G",
            ],
            check=True,
            capture_output=True,
            timeout=120,
        )

    def down(self):
        subprocess.run(
            [VENV / "xce", "down", "--dir", str(self.dir)],
            check=True,
            capture_output=True,
            timeout=120,
        )

    @property
    def socket(self) -> Path:
        return self.dir / "run" / "api.sock"

    def connect(self, timeout: float = 300) -> Connection:
        return Connection(self.socket, timeout)

    def call(self, method: str, path: str, body=None, *, kind="application/json", headers=None):
        """Return the decoded answer of one request."""
        connection = self.connect()
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection.request(
            method, "/xce/v1" + path, content, {"Content-Type": kind, **(headers or {})}
        )
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {text[:500]!r}")
        return json.loads(text) if text else None

    def launcher(self, name: str) -> str:
        """Return the path of a command as `xce env` puts it on PATH."""
        words = [VENV / "xce", "env", "--dir", str(self.dir)]
        text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        for line in text.splitlines():
            if line.startswith("export PATH="):
                first = line.partition("=")[2].strip("\"'").split(":")[0]
                return str(Path(first) / name)
        raise RuntimeError(text)

    def processes(self) -> dict[int, str]:
        """Return the cluster's daemons: pid to kind."""
        found = {}
        mark = str(self.dir)
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal():
                continue
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if not any(mark in word for word in words):
                continue
            for kind in (
                "controller",
                "scheduler",
                "apiserver",
                "history",
                "node_manager",
                "shepherd",
                "worker",
            ):
                if any(f"xce.daemon.{kind}" in w or f"{kind}/main.py" in w for w in words):
                    found[int(entry.name)] = kind
                    break
        return found

    def cpu_s(self) -> dict[str, float]:
        """Return CPU seconds by kind of daemon; ``jobs``: what their ended children used."""
        total: dict[str, float] = {"jobs": 0.0}
        for pid, kind in self.processes().items():
            try:
                text = Path(f"/proc/{pid}/stat").read_text()
            except OSError:
                continue
            fields = text.rpartition(")")[2].split()
            own, children = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
            total[kind] = total.get(kind, 0.0) + own / TICK
            total["jobs"] += children / TICK
        return total

    def memory_kib(self, kind: str) -> int:
        """Return the resident memory of a kind of daemon."""
        total = 0
        for pid, name in self.processes().items():
            if name == kind:
                for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                    if line.startswith("VmRSS"):
                        total += int(line.split()[1])
        return total

    def wait_array(self, job: int, count: int, timeout_s: float = 300) -> float:
        """Wait until ``count`` elements of an array have ended; return the instant."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            row = self.call("GET", f"/arrays?ids={job}&finished=1")["arrays"][0]
            if row["done"] + row["exit"] >= count:
                return time.monotonic()
            time.sleep(0.02)
        raise TimeoutError(f"array {job}")


def submission(**more):
    """Return a submission as ``bsub`` would send it."""
    return {
        "command": "/bin/true",
        "cwd": "/tmp",
        "env": ["PATH=/usr/bin:/bin"],
        "from_host": "bench",
        "home": "/tmp",
        "umask": 18,
        "tasks": [1, 1],
        **more,
    }


def report(name: str, **values):
    """Print one JSON line."""
    print(json.dumps({"bench": name, **values}), flush=True)
