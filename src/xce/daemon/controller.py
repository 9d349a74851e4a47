"""The controller process: recover, listen, run until told to stop.

On a journal in a database several may run: one leads, the others stand by, and do not listen.

``python -m xce.daemon.controller --dir D``
"""

import argparse
import asyncio
import gc
import logging
import os
import pwd
import resource
import signal
import sys
import threading
from pathlib import Path
from typing import Final

import uvloop

from xce.config.site import SiteConfig
from xce.control.controller import Controller
from xce.control.desk import Desk
from xce.daemon.config_directory import load_config, load_site
from xce.daemon.controller_shell import ControllerShell
from xce.daemon.doors import find_own_key, open_doors
from xce.daemon.evidence import check_nothing_was_lost
from xce.daemon.journals import history_place, open_journal
from xce.daemon.logs import open_log
from xce.daemon.lsf_view import store_lsf_view
from xce.daemon.paths import Layout, open_layout
from xce.daemon.signals import STOP_SIGNALS, stop_event
from xce.daemon.snapshots import SnapshotKeeper
from xce.daemon.standby import Lead, LeadWatch, StandBy
from xce.journal.backup import is_restored
from xce.journal.interface import Journal
from xce.journal.recover import recover
from xce.model.command import ApplyConfig
from xce.model.config import ClusterConfig
from xce.model.errors import XceError
from xce.model.observation import ReignBegan
from xce.model.refusal import RefusalCode
from xce.state.apply import apply
from xce.state.check import find_usage_differences
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
    journal: Journal | None = None
    try:
        layout = open_layout(Path(options.dir))
        config = load_config(layout.config)
        find_own_key(layout, config)
        site = load_site(layout.config)
        journal = open_journal(layout, site)
        _raise_descriptors()
        sys.setswitchinterval(SWITCH_INTERVAL_S)
        lead = _begin_reign(journal, site, log, cluster=config.cluster_name)
        if lead is not None and not lead.state.seq:
            check_nothing_was_lost(layout, history_place(layout, site), where=journal.place())
        begins = ReignBegan(is_restored=lead is not None and is_restored(journal))
    except (XceError, OSError) as error:
        log.error("controller-failed", extra={"why": str(error)})  # noqa: TRY400 - for people
        print(f"xce controller: {error}", file=sys.stderr)  # noqa: T201 - for people
        if journal is not None:
            journal.close()
        return 1
    if lead is None:
        log.info("controller-stopping", extra={"why": "it stood by"})
        journal.close()
        return 0
    gc.collect()
    gc.freeze()
    # States are free of cycles; what little there is besides is collected now and then.
    gc.set_threshold(200_000, 20, 100)
    if site.journal.postgres:
        config = _load_again(layout, config, log)
    is_shared = bool(site.journal.postgres)
    return uvloop.run(_run(layout, config, journal, lead, begins, is_shared=is_shared))


def _load_again(layout: Layout, known: ClusterConfig, log: logging.Logger) -> ClusterConfig:
    """Return the configuration as it is now: it may be weeks ago that this began to stand by."""
    try:
        return load_config(layout.config)
    except (XceError, OSError) as error:
        # Worse than the one that was good: a takeover must not fail for a file half written.
        log.error("config-unusable", extra={"why": str(error)})  # noqa: TRY400 - for people
        return known


def _begin_reign(
    journal: Journal, site: SiteConfig, log: logging.Logger, *, cluster: str
) -> Lead | None:
    """Return the lead; None: told to stop while standing by.

    On files only one controller may run: a second one fails. On a database it stands by.
    """
    if not site.journal.postgres:
        epoch = journal.lead("controller")
        state, _, crc = recover(journal, restore=load, empty=ClusterState, apply_entry=apply)
        return Lead(epoch, state, crc, LeadWatch())
    stopping = threading.Event()
    for number in STOP_SIGNALS:
        signal.signal(number, lambda *_: stopping.set())
    standing = StandBy(
        journal, cluster=cluster, lease_s=site.journal.lease_s, log=log, stopping=stopping
    )
    return standing.run()


def _raise_descriptors() -> None:
    """Let as many hosts connect as the system allows: each is a descriptor."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def check_allocations(controller: Controller, log: logging.Logger) -> None:
    """Let nothing be started where what is given out is not the sum of what runs, and say what
    differs: whatever was started on top of it might be too much for a host.
    """
    differences = find_usage_differences(controller.state)
    if differences:
        controller.halted = f"nothing is started, since {differences[0]}"
        log.error("allocations-differ", extra={"what": differences[:20], "count": len(differences)})


async def _run(
    layout: Layout,
    config: ClusterConfig,
    journal: Journal,
    lead: Lead,
    begins: ReignBegan,
    *,
    is_shared: bool,
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
    # A database comes back by itself; a disk must be made room on.
    code = RefusalCode.JOURNAL_AWAY if is_shared else RefusalCode.JOURNAL_FULL
    desk = Desk(Controller(lead.state), trouble_code=code)
    check_allocations(desk.controller, log)
    shell = ControllerShell(desk, journal, epoch=lead.epoch, crc=lead.crc, log=log, on_fatal=fail)
    lead.watch.listen(lambda error: loop.call_soon_threadsafe(fail, error))
    _settle(shell, config, begins)
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
        extra={"epoch": lead.epoch, "seq": desk.durable_seq, "jobs": len(shell.state.jobs)},
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


def _settle(shell: ControllerShell, config: ClusterConfig, begins: ReignBegan) -> None:
    """Put the configuration in effect; no worker is connected yet."""
    user = pwd.getpwuid(os.geteuid()).pw_name
    shell.give(ApplyConfig(user, config, is_admin=True), by=user, basis="admin")
    shell.give(begins, by="controller", basis="component")
    if begins.is_restored:
        shell.log.warning("journal-restored", extra={"seq": shell.state.seq})


if __name__ == "__main__":
    sys.exit(main())
