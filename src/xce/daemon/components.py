"""Which daemons a cluster on one machine has, and the command line of each."""

import os
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from xce.daemon.fresh_config import machine_name
from xce.daemon.processes import ProcessId, each_command_line, end_processes, identify
from xce.model.config import ClusterConfig
from xce.model.errors import ConfigError

STOP_ORDER: Final = (("apiserver", "scheduler", "worker"), ("history",), ("controller",))
"""Who ends together, group after group: first no news comes, then all of it is stored."""
_NODE_MANAGER: Final = "xce.daemon.node_manager"


class Component(NamedTuple):
    """A daemon."""

    name: str
    """``controller``, ``worker-<host>``: names its log too."""
    arguments: tuple[str, ...]
    """What follows the interpreter's own options; by it the process is found again."""

    @property
    def kind(self) -> str:
        """Its role: ``worker`` for all workers."""
        return self.name.split("-", 1)[0]


def local_hosts(config: ClusterConfig) -> list[str]:
    """Return the hosts whose workers are started on this machine.

    All of them, but where hosts of other machines can come: then only the one that has its name.
    """
    names = [host.name for host in config.hosts]
    if not config.listen:
        return names
    return [name for name in names if name == machine_name()]


def plan_components(
    state_dir: Path,
    hosts: Iterable[str],
    only: Collection[str] = (),
    *,
    new_privileges: bool = False,
) -> list[Component]:
    """Return the daemons of a cluster that run on this machine, in the order of their start.

    Args:
        state_dir: The state directory.
        hosts: The hosts whose workers are started here.
        only: Names or kinds of those that run here; empty: all of them.
        new_privileges: Whether their jobs may use set-id programs.

    Raises:
        ConfigError: One of ``only`` names no daemon.
    """
    root = str(state_dir)
    more = ("--new-privileges",) if new_privileges else ()
    alone = [
        Component(name, ("-m", f"xce.daemon.{name}", "--dir", root))
        for name in ("controller", "history", "scheduler", "apiserver")
    ]
    workers = [
        Component(
            f"worker-{host}", ("-m", "xce.daemon.worker", "--dir", root, "--host", host, *more)
        )
        for host in hosts
    ]
    planned = alone + workers
    unknown = set(only) - {word for one in planned for word in (one.name, one.kind)}
    if unknown:
        known = ", ".join(["controller, history, scheduler, apiserver, worker", *_names(workers)])
        raise ConfigError(f"no daemon is called {', '.join(sorted(unknown))}: expected {known}")
    return [one for one in planned if not only or one.name in only or one.kind in only]


def _names(workers: list[Component]) -> list[str]:
    """Return the first names of some, and that there are more."""
    return [one.name for one in workers[:3]] + ["..."] * (len(workers) > 3)


def node_manager_arguments(state_dir: Path, only: Collection[str] = ()) -> tuple[str, ...]:
    """Return the command line of the node manager, behind the interpreter."""
    words = ("-m", _NODE_MANAGER, "--dir", str(state_dir))
    return (*words, "--only", ",".join(only)) if only else words


def find_daemons(state_dir: Path) -> dict[str, ProcessId]:
    """Return the daemons of a cluster that run on this machine, by component name.

    They are found by their command lines, so those of a killed node manager are among them.
    """
    found: dict[str, ProcessId] = {}
    for pid, words in each_command_line(owner_of(state_dir)):
        if len(words) < 5 or "-m" not in words:
            continue
        module = words.index("-m") + 1
        options = words[module + 1 :]
        if not words[module].startswith("xce.daemon.") or options[:2] != ["--dir", str(state_dir)]:
            continue
        process = identify(pid)
        if process is None:
            continue
        name = words[module].removeprefix("xce.daemon.").replace("_", "-")
        name = f"{name}-{options[3]}" if options[2:3] == ["--host"] else name
        if "--hollow" in options:
            # They are told apart by their prefix, so that all of them are found and ended.
            name = " ".join([f"{name}-hollow", *options[2:]])
        # One that was started beside a running one is about to be refused: the oldest is meant.
        found[name] = min(process, found.get(name, process), key=_age)
    return found


def _age(process: ProcessId) -> tuple[int, int]:
    """Return what sorts processes, the oldest first."""
    return process.started_ticks, process.pid


def owner_of(state_dir: Path) -> int:
    """Return the user id of who runs the cluster; this user's where there is none yet."""
    try:
        return state_dir.stat().st_uid
    except OSError:
        return os.geteuid()


def end_daemons(daemons: Mapping[str, ProcessId], *, grace_s: float) -> None:
    """End daemons in their order; returns when they are gone."""
    for kinds in STOP_ORDER:
        group = [process for name, process in daemons.items() if name.split("-", 1)[0] in kinds]
        end_processes(group, grace_s=grace_s)


def command_line(arguments: Iterable[str]) -> list[str]:
    """Return a whole command line.

    ``-I``: neither the current directory nor ``PYTHON*`` variables decide what a daemon imports.
    """
    return [sys.executable, "-I", *arguments]
