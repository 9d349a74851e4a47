"""One control group per job, where the host lets us make them; found out, never assumed.

Kill-all, freeze and "is it empty" need cgroup v2's core files only, which a hybrid host has on its
``unified`` mount too. A memory limit needs the memory controller: v2's, or a v1 group of its own
that only jobs with a limit pay for.

A job is born in its group: the shepherd, which has one thread, moves itself in, starts the job
shell, and moves out again; so nothing of a job ever ran outside. Limits are set after it left.
"""

import contextlib
import errno
import os
from collections.abc import Iterable
from typing import Final, NamedTuple

from xce.worker.shepherd.proc import load_file

_MOUNTS: Final = "/proc/self/mounts"
_OWN: Final = "/proc/self/cgroup"


class Found(NamedTuple):
    """What the host offers."""

    groups: "Groups | None"
    text: str
    """For people: what is used, or why nothing is."""


def find_groups(label: str) -> Found:
    """Return the control groups that jobs of this shepherd may use.

    Args:
        label: Names this shepherd among all of the host; letters, digits, ``-`` and ``.``.
    """
    if os.geteuid() != 0:
        return Found(None, "no control groups without root")
    v2, v1 = _mounts()
    if not v2:
        return Found(None, "no cgroup v2 hierarchy is mounted")
    own = _own_paths()
    home = v2 + own.get("", "/")
    problem = ""
    bases = [f"{v2}/xce", f"{home.rstrip('/')}/xce"]
    if "/xce/" in home:
        # We run inside a job of another cluster, which must not lose what is ours.
        bases.reverse()
    for base in dict.fromkeys(bases):
        try:
            groups = Groups(base=f"{base}/{label}", home=home, memory_v1="")
        except OSError as error:
            problem = f"{base}: {error.strerror}"
            continue
        text = "cgroup v2 kill,freeze"
        if groups.has_cpuset:
            text += ",cpuset"
        if groups.has_memory:
            text += ",memory"
        elif "memory" in v1:
            top = v1["memory"] + own.get("memory", "/").rstrip("/")
            with contextlib.suppress(OSError):
                os.makedirs(f"{top}/xce/{label}", exist_ok=True)  # noqa: PTH103
                groups.memory_v1 = f"{top}/xce/{label}"
                text += " + v1 memory"
        return Found(groups, text)
    return Found(None, f"control groups cannot be made ({problem})")


class Groups:
    """The control groups of one shepherd's jobs, by the name of the attempt."""

    def __init__(self, *, base: str, home: str, memory_v1: str) -> None:
        """Make the common parent and try it.

        Raises:
            OSError: Groups cannot be made, or processes not be moved, here.
        """
        self.base = base
        self.memory_v1 = memory_v1
        self._home = f"{home.rstrip('/')}/cgroup.procs"
        os.makedirs(base, exist_ok=True)  # noqa: PTH103
        self.has_memory = self._delegate("memory")
        self.has_cpuset = self._delegate("cpuset")
        probe = f".probe-{os.getpid()}"
        self.enter(probe)
        self.leave()
        self.has_kill = os.path.exists(f"{base}/{probe}/cgroup.kill")  # noqa: PTH110
        os.rmdir(f"{base}/{probe}")  # noqa: PTH106

    @property
    def limits_memory(self) -> bool:
        """Whether the kernel holds memory limits for us."""
        return self.has_memory or bool(self.memory_v1)

    def enter(self, name: str) -> None:
        """Make the attempt's group and move into it; a child started now is born there."""
        path = f"{self.base}/{name}"
        try:
            os.mkdir(path)  # noqa: PTH102
        except FileExistsError:
            # What was killed while it was frozen leaves it so, and we would stand still in it.
            self.freeze(name, frozen=False)
        _write(f"{path}/cgroup.procs", "0")

    def enter_memory(self, name: str) -> None:
        """Move into the attempt's own v1 memory group too, where that is how memory is limited."""
        if self.memory_v1:
            path = f"{self.memory_v1}/{name}"
            with contextlib.suppress(FileExistsError):
                os.mkdir(path)  # noqa: PTH102
            _write(f"{path}/cgroup.procs", "0")

    def leave(self) -> None:
        """Move back home."""
        _write(self._home, "0")

    def leave_memory(self) -> None:
        """Move back home in the v1 memory hierarchy."""
        if self.memory_v1:
            top = self.memory_v1.rsplit("/", 2)[0]
            _write(f"{top}/cgroup.procs", "0")

    def limit_memory(self, name: str, limit_kib: int) -> bool:
        """Limit an attempt's memory (0: no more); False: the host cannot."""
        most = str(limit_kib * 1024) if limit_kib else "max" if self.has_memory else "-1"
        try:
            if self.has_memory:
                _write(f"{self.base}/{name}/memory.max", most)
                with contextlib.suppress(OSError):
                    _write(f"{self.base}/{name}/memory.swap.max", "0" if limit_kib else "max")
                with contextlib.suppress(OSError):
                    _write(f"{self.base}/{name}/memory.oom.group", "1")
                return True
            if self.memory_v1:
                path = f"{self.memory_v1}/{name}"
                # Memory alone may never have more room than memory with swap.
                names = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
                with contextlib.suppress(OSError):
                    _write(f"{path}/{names[1]}", most)
                _write(f"{path}/{names[0]}", most)
                with contextlib.suppress(OSError):
                    _write(f"{path}/{names[1]}", most)
                return True
        except OSError:
            return False
        return False

    def bind(self, name: str, processors: Iterable[int], nodes: Iterable[int]) -> bool:
        """Hold an attempt to processors, and to the memory of NUMA domains if any are named; False:
        the host cannot.
        """
        if not self.has_cpuset:
            return False
        path = f"{self.base}/{name}"
        try:
            _write(f"{path}/cpuset.cpus", ",".join(map(str, processors)))
            if text := ",".join(map(str, nodes)):
                _write(f"{path}/cpuset.mems", text)
        except OSError:
            return False
        return True

    def pids(self, name: str) -> list[int]:
        """Return the processes of an attempt."""
        content = load_file(f"{self.base}/{name}/cgroup.procs", 1 << 20)
        return [int(word) for word in content.split()]

    def kill(self, name: str) -> bool:
        """Kill everything in the group at once, frozen or not; False: the kernel cannot."""
        if not self.has_kill:
            return False
        with contextlib.suppress(OSError):
            _write(f"{self.base}/{name}/cgroup.kill", "1")
        return True

    def freeze(self, name: str, *, frozen: bool) -> bool:
        """Freeze or thaw a group; False: it is not there."""
        try:
            _write(f"{self.base}/{name}/cgroup.freeze", "1" if frozen else "0")
        except OSError:
            return False
        return True

    def remove(self, name: str) -> bool:
        """Remove an attempt's groups; False: something still lives in them."""
        path = f"{self.base}/{name}"
        try:
            os.rmdir(path)  # noqa: PTH106
        except FileNotFoundError:
            pass
        except OSError as error:
            if error.errno != errno.EBUSY or self.pids(name) or not self._remove_inner(path):
                return False
        return True

    def remove_memory(self, name: str) -> None:
        """Remove an attempt's v1 memory group, if it has one."""
        if self.memory_v1:
            with contextlib.suppress(OSError):
                os.rmdir(f"{self.memory_v1}/{name}")  # noqa: PTH106

    def ooms(self, name: str) -> int:
        """Return how often the kernel killed for want of memory in an attempt's group."""
        if self.has_memory:
            content = load_file(f"{self.base}/{name}/memory.events")
        elif self.memory_v1:
            content = load_file(f"{self.memory_v1}/{name}/memory.oom_control")
        else:
            return 0
        return _number(content, b"oom_kill")

    def peak_kib(self, name: str) -> int:
        """Return the most memory that an attempt's group held; 0: not counted."""
        if self.has_memory:
            content = load_file(f"{self.base}/{name}/memory.peak")
        elif self.memory_v1:
            content = load_file(f"{self.memory_v1}/{name}/memory.max_usage_in_bytes")
        else:
            return 0
        return int(content or b"0") // 1024

    def cpu_us(self, name: str) -> tuple[int, int]:
        """Return user and system time that an attempt's group used."""
        content = load_file(f"{self.base}/{name}/cpu.stat")
        return _number(content, b"user_usec"), _number(content, b"system_usec")

    def sweep(self, names: set[str]) -> None:
        """Remove empty groups of attempts that are not among ``names``."""
        for base in filter(None, (self.base, self.memory_v1)):
            with contextlib.suppress(OSError), os.scandir(base) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False) and entry.name not in names:
                        with contextlib.suppress(OSError):
                            os.rmdir(entry.path)  # noqa: PTH106

    def close(self) -> None:
        """Remove the common parents if they are empty."""
        for path in (self.base, self.memory_v1):
            if path:
                with contextlib.suppress(OSError):
                    os.rmdir(path)  # noqa: PTH106
                    os.rmdir(path.rsplit("/", 1)[0])  # noqa: PTH106

    def _delegate(self, controller: str) -> bool:
        """Hand a controller down to the jobs' groups, where v2 has it."""
        top = self.base.rsplit("/", 2)[0]
        for path in (top, f"{top}/xce", self.base):
            if controller.encode() not in load_file(f"{path}/cgroup.controllers").split():
                return False
            if controller.encode() not in load_file(f"{path}/cgroup.subtree_control").split():
                try:
                    _write(f"{path}/cgroup.subtree_control", f"+{controller}")
                except OSError:
                    return False
        return True

    def _remove_inner(self, path: str) -> bool:
        """Remove empty groups that a job has made inside its own."""
        with contextlib.suppress(OSError):
            for name, _, _ in os.walk(path, topdown=False):
                os.rmdir(name)  # noqa: PTH106
            return True
        return False


def _mounts() -> tuple[str, dict[str, str]]:
    """Return where cgroup v2 is mounted (empty: nowhere), and each v1 controller."""
    v2 = ""
    v1: dict[str, str] = {}
    for line in load_file(_MOUNTS, 1 << 20).decode(errors="replace").splitlines():
        fields = line.split()
        if len(fields) < 4:
            continue
        if fields[2] == "cgroup2" and not v2:
            v2 = fields[1]
        elif fields[2] == "cgroup":
            for option in fields[3].split(","):
                v1.setdefault(option, fields[1])
    return v2, v1


def _own_paths() -> dict[str, str]:
    """Return our own group by v1 controller; the empty name is v2."""
    paths = {}
    for line in load_file(_OWN).decode(errors="replace").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            paths[controller] = path
    return paths


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def _number(content: bytes, name: bytes) -> int:
    for line in content.splitlines():
        word, _, value = line.partition(b" ")
        if word == name:
            return int(value)
    return 0
