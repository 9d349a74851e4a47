"""The worker process of one host.

``python -m xce.daemon.worker --dir D --host NAME [--slots N] [--mem MIB]``

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
from xce.daemon.journals import load_controllers
from xce.daemon.logs import open_log
from xce.daemon.paths import Layout, open_layout
from xce.daemon.signals import stop_event
from xce.model.config import ClusterConfig
from xce.model.ids import SECOND_US
from xce.worker.link import ShepherdOptions
from xce.worker.shell import Worker, WorkerOptions
from xce.worker.store import Store


def worker_options(layout: Layout, options: argparse.Namespace) -> WorkerOptions:
    """Return what a worker is told, from its command line and the machine."""
    directory = layout.host(options.host)
    digest = hashlib.blake2b(os.fsencode(directory), digest_size=6).hexdigest()
    return WorkerOptions(
        host=options.host,
        directory=directory,
        controllers=load_controllers(layout),
        shepherd=ShepherdOptions(
            socket=layout.shepherd_socket(options.host),
            runs=directory / "attempts",
            kept=directory / "outputs",
            label=f"{options.host}-{digest}",
            log_file=layout.log_file(f"shepherd-{options.host}"),
            use_cgroups=not options.no_cgroups,
        ),
        version=VERSION,
        cpus=options.slots or len(os.sched_getaffinity(0)),
        mem_mib=options.mem or _memory_mib(),
        retention_s=options.retention,
    )


def _memory_mib() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1024 * 1024)


async def _run(options: argparse.Namespace) -> int:
    log = open_log(f"worker-{options.host}")
    stop = stop_event()
    layout = open_layout(Path(options.dir))
    given = worker_options(layout, options)
    try:
        store = Store(given.directory)
    except OSError as error:
        log.exception("store-failed", extra={"why": str(error)})
        return 1
    failures: list[object] = []

    def fail(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        # A fault ends the process: the next worker begins with what is true.
        failures.append(context)
        error = context.get("exception")
        log.error(
            "worker-failed",
            extra={"why": context.get("message")},
            exc_info=error if isinstance(error, BaseException) else None,
        )
        stop.set()

    asyncio.get_running_loop().set_exception_handler(fail)
    worker = asyncio.create_task(Worker(given, store, log).run())
    stopped = asyncio.create_task(stop.wait())
    done, _ = await asyncio.wait({worker, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if worker in done:
        log.error("worker-failed", exc_info=worker.exception())
        return 1
    worker.cancel()
    await asyncio.wait({worker})
    log.info("worker-stopped")
    return 1 if failures else 0


def main() -> int:
    """Run the worker of one host."""
    parser = argparse.ArgumentParser(prog="xce worker", description=__doc__)
    parser.add_argument("--dir", required=True, help="the state directory")
    parser.add_argument("--host", required=True, help="this host's name in the cluster")
    parser.add_argument("--slots", type=int, default=0, help="slots to offer instead of the CPUs")
    parser.add_argument("--mem", type=int, default=0, help="memory to offer, in MiB")
    parser.add_argument(
        "--retention",
        type=float,
        default=ClusterConfig().output_retention_us / SECOND_US,
        help="seconds that output is kept after its job",
    )
    parser.add_argument("--no-cgroups", action="store_true", help="use sessions and /proc only")
    options = parser.parse_args()
    gc.set_threshold(50_000, 20, 100)
    return uvloop.run(_run(options))


if __name__ == "__main__":
    sys.exit(main())
