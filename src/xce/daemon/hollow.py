"""Many hollow hosts in one process: real connections and the real protocol, simulated jobs.

For tests and measurements of a controller with more hosts than there are machines. Nothing of it
is left when the process ends: its hosts have lost their power then.
"""

import argparse
import asyncio
import logging
import resource
from pathlib import Path
from typing import Final

from xce.client.version import VERSION
from xce.config.names import HOST_NAME
from xce.daemon.config_directory import load_config
from xce.daemon.dialling import find_ways
from xce.daemon.faults import end_on_fault
from xce.daemon.logs import open_log
from xce.daemon.paths import Layout, open_layout
from xce.daemon.signals import stop_event
from xce.journal.lock import DirectoryLock
from xce.model.errors import XceError
from xce.worker.accounts import Accounts
from xce.worker.hollow import HollowOptions, parse_course
from xce.worker.shell import Worker, WorkerOptions
from xce.worker.store import Store

HOSTS_MAX: Final = 10_000
_QUIET: Final = logging.ERROR
"""Single hosts say nothing of connections that come and go: there are too many."""


class HollowError(XceError):
    """Hollow hosts are not to be had; the message says why."""


def add_hollow_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of hollow hosts to those of a worker."""
    parser.add_argument(
        "--hollow", type=int, default=0, metavar="N",
        help="be N hosts with simulated jobs, for tests; not in mode production",
    )  # fmt: skip
    parser.add_argument(
        "--hollow-prefix", default="hollow-", metavar="NAME",
        help="they are called NAME1, NAME2, ... (default: hollow-)",
    )  # fmt: skip
    parser.add_argument(
        "--hollow-seconds", default="1", metavar="S",
        help="how long a job runs that has no XCE_HOLLOW_S: 1.5, or 1-10 (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--hollow-exit", default="0", metavar="CODE",
        help="exit code of a job that has no XCE_HOLLOW_EXIT (default: 0)",
    )  # fmt: skip


def check_hollow(options: argparse.Namespace, layout: Layout) -> None:
    """Refuse what makes no sense, and every cluster that people work with.

    Raises:
        XceError: It is refused.
    """
    if options.host or options.connect or options.enrol:
        raise HollowError("--hollow goes without --host, --connect and --enrol")
    if not 1 <= options.hollow <= HOSTS_MAX:
        raise HollowError(f"--hollow {options.hollow} is out of range: expected 1 to {HOSTS_MAX}")
    prefix = options.hollow_prefix
    if not HOST_NAME.fullmatch(f"{prefix}{options.hollow}") or prefix[-1:].isdecimal():
        raise HollowError(
            f"--hollow-prefix {prefix!r}: expected the beginning of a host name, no digit at its "
            "end"
        )
    try:
        parse_course(options.hollow_seconds, options.hollow_exit)
    except ValueError as error:
        raise HollowError(f"--hollow-seconds, --hollow-exit: {error}") from error
    if load_config(layout.config).mode == "production":
        raise HollowError(
            "hollow hosts are refused: the cluster is in mode production (say `mode: test` in "
            "xce.yaml, in a cluster that nobody works with)"
        )


async def run_hollow(options: argparse.Namespace) -> int:
    """Be hollow hosts until told to end; return the exit status."""
    log = open_log(f"hollow-{options.hollow_prefix}")
    stop = stop_event()
    layout = open_layout(Path(options.dir))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    directory = layout.hollow(options.hollow_prefix)
    try:
        store = Store(directory)
        lock = DirectoryLock(directory / "lock", holder="worker")
    except (XceError, OSError) as error:
        log.error("hollow-not-started", extra={"why": str(error)})  # noqa: TRY400 - for people
        return 1
    faults = end_on_fault(log, "worker-failed", stop)
    loop = asyncio.get_running_loop()
    accounts = Accounts()
    hosts = [
        loop.create_task(Worker(given, store, _log(given.host), accounts).run())
        for given in _worker_options(layout, directory, options)
    ]
    log.info("hollow-started", extra={"hosts": len(hosts)})
    stopped = loop.create_task(stop.wait())
    done, _ = await asyncio.wait({*hosts, stopped}, return_when=asyncio.FIRST_COMPLETED)
    died = done - {stopped}
    for task in died:
        log.error("worker-failed", exc_info=task.exception())
    for task in hosts:
        task.cancel()
    await asyncio.wait(hosts)
    lock.release()
    log.info("hollow-stopped")
    return 1 if faults or died else 0


def _worker_options(
    layout: Layout, directory: Path, options: argparse.Namespace
) -> list[WorkerOptions]:
    """Return what the worker of each host is told."""
    controllers = find_ways(layout, "worker", _log("hollow")).destinations
    return [
        WorkerOptions(
            host=f"{options.hollow_prefix}{number}",
            directory=directory,
            controllers=controllers,
            shepherd=HollowOptions(options.hollow_seconds, options.hollow_exit),
            version=VERSION,
            cpus=options.slots or 1,
            mem_mib=options.mem or 1024,
            retention_s=options.retention,
        )
        for number in range(1, options.hollow + 1)
    ]


def _log(name: str) -> logging.Logger:
    log = logging.getLogger(f"worker-{name}")
    log.setLevel(_QUIET)
    return log
