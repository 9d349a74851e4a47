"""The controller process: recover, listen, run until told to stop.

``python -m xce.daemon.controller --dir D``
"""

import argparse
import asyncio
import gc
import os
import pwd
import resource
import sys
from pathlib import Path
from typing import Final

import uvloop

from xce.control.controller import Controller
from xce.control.desk import Desk
from xce.daemon.config_directory import load_config
from xce.daemon.controller_shell import ControllerShell
from xce.daemon.doors import find_own_key, open_doors
from xce.daemon.evidence import check_nothing_was_lost
from xce.daemon.logs import open_log
from xce.daemon.lsf_view import store_lsf_view
from xce.daemon.paths import Layout, open_layout
from xce.daemon.signals import stop_event
from xce.daemon.snapshots import SnapshotKeeper
from xce.journal.recover import recover
from xce.journal.sqlite import SqliteJournal
from xce.model.command import ApplyConfig
from xce.model.config import ClusterConfig
from xce.model.errors import XceError
from xce.model.ids import Epoch
from xce.model.observation import HostDisconnected
from xce.state.apply import apply
from xce.state.cluster import ClusterState
from xce.state.snapshot import load

SWITCH_INTERVAL_S: Final = 0.0005
"""The journal's thread must not wait for the interpreter (``docs/architecture``)."""


def main() -> int:
    """Run the controller."""
    parser = argparse.ArgumentParser(prog="xce controller", description=__doc__)
    parser.add_argument("--dir", required=True, help="the state directory")
    options = parser.parse_args()
    log = open_log("controller")
    try:
        layout = open_layout(Path(options.dir))
        config = load_config(layout.config)
        find_own_key(layout, config)
        journal = SqliteJournal(layout.journal)
        epoch = journal.lead("controller")
        state, _, crc = recover(journal, restore=load, empty=ClusterState, apply_entry=apply)
        if not state.seq:
            check_nothing_was_lost(layout, where=journal.place())
    except (XceError, OSError) as error:
        log.error("controller-failed", extra={"why": str(error)})  # noqa: TRY400 - for people
        print(f"xce controller: {error}", file=sys.stderr)  # noqa: T201 - for people
        return 1
    _raise_descriptors()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()
    # States are free of cycles; what little there is besides is collected now and then.
    gc.set_threshold(200_000, 20, 100)
    return uvloop.run(_run(layout, config, journal, epoch, Desk(Controller(state)), crc))


def _raise_descriptors() -> None:
    """Let as many hosts connect as the system allows: each is a descriptor."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def _run(
    layout: Layout,
    config: ClusterConfig,
    journal: SqliteJournal,
    epoch: Epoch,
    desk: Desk,
    crc: int,
) -> int:
    log = open_log("controller")
    stop = stop_event()
    failures: list[BaseException] = []

    def fail(error: BaseException) -> None:
        log.error("journal-lost", extra={"why": str(error)})
        failures.append(error)
        stop.set()

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: fail(_as_error(context)))
    shell = ControllerShell(desk, journal, epoch=epoch, crc=crc, log=log, on_fatal=fail)
    _settle(shell, config)
    try:
        store_lsf_view(layout, config)
    except OSError as error:
        log.warning("lsf-view-not-written", extra={"why": str(error)})
    shell.start()
    try:
        doors = await open_doors(shell, layout, config, log)
    except XceError as error:
        log.error("controller-failed", extra={"why": str(error)})  # noqa: TRY400 - for people
        print(f"xce controller: {error}", file=sys.stderr)  # noqa: T201 - for people
        shell.close()
        journal.close()
        return 1
    snapshots = SnapshotKeeper(shell, layout)
    snapshots.start()
    log.info(
        "controller-started",
        extra={"epoch": epoch, "seq": desk.durable_seq, "jobs": len(shell.state.jobs)},
    )
    await stop.wait()
    log.info("controller-stopping", extra={"seq": desk.durable_seq})
    await doors.close()
    await snapshots.close()
    shell.close()
    journal.close()
    return 1 if failures else 0


def _as_error(context: dict[str, object]) -> BaseException:
    """Return the fault of a callback: a controller that has one ends, and the next one replays."""
    error = context.get("exception")
    if isinstance(error, BaseException):
        error.add_note(str(context.get("message")))
        return error
    return RuntimeError(str(context.get("message")))


def _settle(shell: ControllerShell, config: ClusterConfig) -> None:
    """Put the configuration in effect; no worker is connected yet."""
    user = pwd.getpwuid(os.geteuid()).pw_name
    shell.give(ApplyConfig(user, config, is_admin=True), by=user, basis="admin")
    table = shell.state.hosts
    for number, name in enumerate(table.names):
        if table.is_up[number]:
            shell.give(HostDisconnected(name), by="controller", basis="component")


if __name__ == "__main__":
    sys.exit(main())
