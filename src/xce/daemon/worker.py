"""The worker process of one host.

``python -m xce.daemon.worker --dir D --host NAME [--slots N] [--mem MIB]`` beside its controller;
``... --dir D --connect HOST:PORT`` on another host, once with ``--enrol FILE`` before.
``... --dir D --hollow N [--connect HOST:PORT]``: N hosts with simulated jobs, see
`xce.daemon.hollow`.

SIGTERM ends the worker; its jobs and their shepherd go on, and the next worker finds them.
"""

import argparse
import asyncio
import gc
import hashlib
import os
import sys
from pathlib import Path

import uvloop

from xce.client.version import VERSION
from xce.daemon.dialling import Ways, find_ways, find_ways_by_key
from xce.daemon.enrolment import enrol_host, load_enrolled, parse_addresses, worker_stem
from xce.daemon.faults import end_on_fault
from xce.daemon.hollow import (
    add_hollow_options,
    check_hollow,
    find_hollow_ways,
    run_hollow,
)
from xce.daemon.host_token import TokenError, load_token
from xce.daemon.key_files import check_key, key_pair
from xce.daemon.logs import open_log
from xce.daemon.paths import Layout, open_layout
from xce.daemon.signals import stop_event
from xce.journal.interface import JournalHeldError
from xce.journal.lock import DirectoryLock
from xce.model.config import ClusterConfig
from xce.model.errors import XceError
from xce.model.ids import SECOND_US
from xce.worker.hardware import find_hardware, find_programs
from xce.worker.launch_desk import open_door
from xce.worker.link import ShepherdOptions
from xce.worker.nvml import find_devices
from xce.worker.processors import find_processors
from xce.worker.shell import Worker, WorkerOptions
from xce.worker.store import Store


def worker_options(layout: Layout, options: argparse.Namespace, ways: Ways) -> WorkerOptions:
    """Return what a worker is told, from its command line and the machine."""
    directory = layout.host(options.host)
    digest = hashlib.blake2b(os.fsencode(directory), digest_size=6).hexdigest()
    return WorkerOptions(
        host=options.host,
        directory=directory,
        controllers=ways.destinations,
        shepherd=ShepherdOptions(
            socket=layout.shepherd_socket(options.host),
            runs=directory / "attempts",
            kept=directory / "outputs",
            label=f"{options.host}-{digest}",
            log_file=layout.log_file(f"shepherd-{options.host}"),
            use_cgroups=not options.no_cgroups,
            new_privileges=options.new_privileges,
        ),
        version=VERSION,
        cpus=options.slots or len(os.sched_getaffinity(0)),
        mem_mib=options.mem or _memory_mib(),
        devices=find_devices(),
        attributes=tuple((find_hardware() | find_programs()).items()),
        processors=find_processors(),
        retention_s=options.retention,
        on_controllers=ways.learn,
    )


def _memory_mib() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1024 * 1024)


def find_own_ways(layout: Layout, options: argparse.Namespace) -> Ways | None:
    """Return how controllers are reached, enrolling before where that is asked.

    ``options.host`` is set where it was not said. None: nobody has said which host this is.

    Raises:
        XceError: It cannot be reached, refuses, or this host has not enrolled.
    """
    if options.enrol:
        if not options.connect:
            raise TokenError("--enrol needs --connect HOST:PORT")
        token = load_token(options.enrol)
        if options.host not in (None, token.host):
            raise TokenError(f"the token is for host {token.host}, not for {options.host}")
        asyncio.run(enrol_host(layout.keys, token, parse_addresses(options.connect), VERSION))
        print(f"host {token.host} has enrolled", flush=True)  # noqa: T201 - for people
    enrolled = load_enrolled(layout.keys)
    if options.connect is None and (enrolled is None or options.host not in (None, enrolled.host)):
        if options.host is None:
            return None
        return find_ways(layout, "worker", open_log(f"worker-{options.host}"))
    if enrolled is None:
        raise TokenError("this host has not enrolled: see `xceadmin keys token` and --enrol")
    if options.host not in (None, enrolled.host):
        raise TokenError(f"this host enrolled as {enrolled.host}, not as {options.host}")
    options.host = enrolled.host
    addresses = parse_addresses(options.connect) if options.connect else enrolled.addresses
    pair = check_key(key_pair(layout.keys, worker_stem(enrolled.host)))
    log = open_log(f"worker-{enrolled.host}")
    return find_ways_by_key(layout.keys, addresses, pair, log)


async def _run(options: argparse.Namespace, ways: Ways) -> int:
    log = open_log(f"worker-{options.host}")
    stop = stop_event()
    layout = open_layout(Path(options.dir))
    given = worker_options(layout, options, ways)
    try:
        store = Store(given.directory)
        door = open_door(layout.launch_socket(options.host), given.directory / "launch.key")
        given = given._replace(door=door)
        lock = DirectoryLock(given.directory / "lock", holder="worker")
    except JournalHeldError as error:
        if options.enrol:
            text = "the worker that runs here takes its new key with its next connection"
            print(text, flush=True)  # noqa: T201 - for people
            return 0
        # Two would take the shepherd, and the controller, from each other for ever.
        log.error("worker-not-started", extra={"why": str(error)})  # noqa: TRY400 - for people
        return 1
    except OSError as error:
        log.exception("store-failed", extra={"why": str(error)})
        return 1
    faults = end_on_fault(log, "worker-failed", stop)
    worker = asyncio.create_task(Worker(given, store, log).run())
    stopped = asyncio.create_task(stop.wait())
    done, _ = await asyncio.wait({worker, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if worker in done:
        log.error("worker-failed", exc_info=worker.exception())
        return 1
    worker.cancel()
    await asyncio.wait({worker})
    lock.release()
    log.info("worker-stopped")
    return 1 if faults else 0


def main() -> int:
    """Run the worker of one host."""
    parser = argparse.ArgumentParser(prog="xce worker", description=__doc__)
    parser.add_argument("--dir", required=True, help="the state directory")
    parser.add_argument("--host", help="this host's name in the cluster")
    parser.add_argument(
        "--connect", metavar="HOST:PORT", help="where controllers of other hosts listen, by commas"
    )
    parser.add_argument(
        "--enrol", metavar="FILE", help="a token; -: on standard input; env: in $XCE_TOKEN"
    )
    parser.add_argument("--slots", type=int, default=0, help="slots to offer instead of the CPUs")
    parser.add_argument("--mem", type=int, default=0, help="memory to offer, in MiB")
    parser.add_argument(
        "--retention",
        type=float,
        default=ClusterConfig().output_retention_us / SECOND_US,
        help="seconds that output is kept after its job",
    )
    parser.add_argument("--no-cgroups", action="store_true", help="use sessions and /proc only")
    parser.add_argument(
        "--new-privileges",
        action="store_true",
        help="let jobs gain privileges by set-id programs such as sudo and ping",
    )
    add_hollow_options(parser)
    options = parser.parse_args()
    try:
        layout = open_layout(Path(options.dir))
        if options.hollow:
            check_hollow(options, layout)
            ways: Ways | None = find_hollow_ways(layout, options)
        else:
            ways = find_own_ways(layout, options)
    except XceError as error:
        print(f"xce worker: {error}", file=sys.stderr)  # noqa: T201 - for people
        return 1
    gc.set_threshold(50_000, 20, 100)
    if ways is None:
        parser.error("--host NAME is needed, or --connect HOST:PORT on a host that has enrolled")
    if options.hollow:
        return uvloop.run(run_hollow(options, ways))
    return uvloop.run(_run(options, ways))


if __name__ == "__main__":
    sys.exit(main())
