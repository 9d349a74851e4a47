"""Many hollow hosts in one process: real connections and the real protocol, simulated jobs.

For tests and measurements of a controller with more hosts than there are machines. Nothing of it
is left when the process ends: its hosts have lost their power then.
"""

import argparse
import asyncio
import logging
import resource
import time
from pathlib import Path
from typing import Final

from xce.client.version import VERSION
from xce.config.names import HOST_NAME
from xce.daemon.config_directory import load_config
from xce.daemon.dialling import Ways, find_ways, find_ways_by_key
from xce.daemon.enrolment import parse_addresses, worker_stem
from xce.daemon.faults import end_on_fault
from xce.daemon.key_files import check_key, key_pair
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
AGAIN_S: Final = 60.0
"""So long what one host has told is not told by the others."""
_TOLD_MAX: Final = 1_000


class HollowError(XceError):
    """Hollow hosts are not to be had; the message says why."""


class _FirstOfAll(logging.Filter):
    """Lets one host tell of a trouble that all of them have."""

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[tuple[str, object], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is written."""
        if record.levelno >= logging.ERROR and record.exc_info:
            return True
        said = record.getMessage(), record.__dict__.get("why")
        now = time.monotonic()
        if now - self._told.get(said, -AGAIN_S) < AGAIN_S:
            return False
        if len(self._told) >= _TOLD_MAX:
            self._told.clear()
        self._told[said] = now
        return True


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
    if options.host or options.enrol:
        raise HollowError(
            "--hollow goes without --host and --enrol: over the network they share a key, that of "
            f"`xceadmin keys new worker {options.hollow_prefix}`"
        )
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
    # Elsewhere the configuration is not at hand; the controller refuses them as well.
    if not options.connect and load_config(layout.config).mode == "production":
        raise HollowError(
            "hollow hosts are refused: the cluster is in mode production (say `mode: test` in "
            "xce.yaml, in a cluster that nobody works with)"
        )


def find_hollow_ways(layout: Layout, options: argparse.Namespace) -> Ways:
    """Return how controllers are reached: over the network with the key that the hosts share.

    Raises:
        XceError: The configuration, or the key, cannot be used.
    """
    log = open_log(f"hollow-{options.hollow_prefix}")
    if not options.connect:
        return find_ways(layout, "worker", log)
    pair = key_pair(layout.keys, worker_stem(options.hollow_prefix))
    if not pair.key.exists():
        prefix = options.hollow_prefix
        raise HollowError(
            f"{pair.key} is not there: make it with `xceadmin keys new worker {prefix}`, and have "
            f"its .crt trusted with `--name '{prefix}*'`"
        )
    return find_ways_by_key(layout.keys, parse_addresses(options.connect), check_key(pair), log)


async def run_hollow(options: argparse.Namespace, ways: Ways) -> int:
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
    accounts, filtered = Accounts(), _FirstOfAll()
    hosts = [
        loop.create_task(Worker(given, store, _log(given.host, filtered), accounts).run())
        for given in _worker_options(directory, options, ways)
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
    directory: Path, options: argparse.Namespace, ways: Ways
) -> list[WorkerOptions]:
    """Return what the worker of each host is told."""
    return [
        WorkerOptions(
            host=f"{options.hollow_prefix}{number}",
            directory=directory,
            controllers=ways.destinations,
            shepherd=HollowOptions(options.hollow_seconds, options.hollow_exit),
            version=VERSION,
            cpus=options.slots or 1,
            mem_mib=options.mem or 1024,
            retention_s=options.retention,
            on_controllers=ways.learn,
        )
        for number in range(1, options.hollow + 1)
    ]


def _log(host: str, filtered: logging.Filter) -> logging.Logger:
    log = logging.getLogger(f"worker-{host}")
    log.setLevel(logging.WARNING)
    log.addFilter(filtered)
    return log
