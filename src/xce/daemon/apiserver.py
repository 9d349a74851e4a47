"""``python -m xce.daemon.apiserver --dir D``: REST over a unix socket, from its own replica."""

import argparse
import asyncio
import gc
import os
import pwd
import resource
import socket
import stat
import sys
from collections.abc import Callable, Sequence
from logging import Logger
from pathlib import Path
from typing import Final

import uvloop
from aiohttp import web

from xce.apiserver.app import make_server
from xce.apiserver.backend import Backend, Site
from xce.apiserver.identity import Identities
from xce.apiserver.link import ControllerLink
from xce.apiserver.replica import Replica
from xce.client.version import VERSION
from xce.daemon.api_door import ApiDoor, load_token_key
from xce.daemon.components import command_line
from xce.daemon.config_directory import load_config
from xce.daemon.dialling import find_ways
from xce.daemon.journals import find_history
from xce.daemon.logs import open_log
from xce.daemon.lsf_view import store_lsf_view
from xce.daemon.paths import Layout, open_layout
from xce.daemon.settings import load_settings
from xce.daemon.signals import stop_event
from xce.daemon.warm import load_warm
from xce.journal.history_reader import HistoryReader
from xce.model.errors import XceError
from xce.model.ids import Micros
from xce.net.frame import WireError
from xce.net.handshake import make_hello

READY_S: Final = 5.0
"""How long to wait for the first state before users are let in."""
SHUTDOWN_S: Final = 1.0


def home_of(uid: int) -> str:
    """Return the home directory of a user id, empty where there is none."""
    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        return ""


def open_api_socket(path: Path, *, shared: bool) -> socket.socket:
    """Return a bound socket; one that a dead process left is replaced.

    Args:
        path: Where to listen.
        shared: Whether other users may connect.

    Raises:
        WireError: Somebody listens there already, or it cannot be bound.
    """
    try:
        if path.is_socket() or path.is_symlink():
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.settimeout(1.0)
                try:
                    probe.connect(str(path))
                except (ConnectionRefusedError, FileNotFoundError):
                    path.unlink(missing_ok=True)
                else:
                    raise WireError(f"{path}: another apiserver listens there already")
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mask = os.umask(0o177)
        try:
            listening.bind(str(path))
        finally:
            os.umask(mask)
        if shared:
            path.chmod(stat.S_IRUSR | stat.S_IWUSR | 0o066)
    except OSError as error:
        raise WireError(f"{path}: cannot listen there: {error.strerror or error}") from error
    return listening


async def run(layout: Layout, log: Logger) -> int:
    """Serve until told to stop; return the exit status."""
    stop = stop_event()
    identities = Identities()
    listening = open_api_socket(layout.api_socket, shared=identities.runs_as_root)
    inode = layout.api_socket.lstat().st_ino
    replica = Replica()
    ways = find_ways(layout, "apiserver", log)
    hello = make_hello("apiserver", ways.name or f"apiserver-{os.getpid()}", VERSION)
    link = ControllerLink(ways.destinations, hello, replica, log, on_controllers=ways.learn)
    history = HistoryReader(find_history(layout))
    site = Site(
        host=socket.gethostname(),
        version=VERSION,
        home_of=home_of,
        lsf_dir=str(layout.lsf),
        load_config=lambda: load_config(layout.config),
        note_config=lambda config: store_lsf_view(layout, config),
        traces=layout.traces,
        past_command=_past_command(layout),
    )
    backend = Backend(
        replica, link, history, identities, log, site=site, token_key=load_token_key(layout.keys)
    )
    warm = load_warm(layout, log)
    if warm is not None:
        link.begin_warm(warm.state, warm.follower())
    following = asyncio.create_task(link.run())
    await wait_until_live(replica, stop)
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    runner = web.ServerRunner(make_server(backend), shutdown_timeout=SHUTDOWN_S)
    await runner.setup()
    await web.SockSite(runner, listening, backlog=1024).start()
    door = ApiDoor(backend, layout.keys, log, host=site.host)
    listening_outside = asyncio.create_task(door.run())
    log.info("apiserver-started", extra={"socket": str(layout.api_socket), "seq": replica.seq})
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((stopping, link.failed, following), return_when=asyncio.FIRST_COMPLETED)
    backend.is_stopping = True
    stopping.cancel()
    following.cancel()
    listening_outside.cancel()
    backend.past_desk.close()
    await runner.cleanup()
    await asyncio.gather(following, stopping, listening_outside, return_exceptions=True)
    await backend.denials.close()
    history.close()
    backend.archive.close()
    if layout.api_socket.exists() and layout.api_socket.lstat().st_ino == inode:
        layout.api_socket.unlink()
    if link.failed.done():
        log.error("replica-lost", extra={"why": str(link.failed.result())})
        return 1
    log.info("apiserver-stopped", extra={"seq": replica.seq})
    return 0


def _past_command(layout: Layout) -> Callable[[Micros], list[str]]:
    """Return what gives the command line of a process that answers about an instant."""
    words = ("-m", "xce.daemon.past", "--dir", str(layout.root), "--at-us")
    return lambda at_us: command_line((*words, str(at_us)))


async def wait_until_live(replica: Replica, stop: asyncio.Event) -> None:
    """Wait for the first state, but not for ever: reads say that they are stale."""
    deadline = asyncio.get_running_loop().time() + READY_S
    while replica.stale_s and not stop.is_set():
        if asyncio.get_running_loop().time() > deadline:
            return
        await asyncio.sleep(0.01)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the apiserver; return its exit status."""
    parser = argparse.ArgumentParser(prog="xce apiserver", description=__doc__)
    parser.add_argument("--dir", help="the state directory")
    given = parser.parse_args(arguments)
    log = open_log("apiserver")
    try:
        layout = open_layout(Path(load_settings(given.dir).state_dir))
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        return uvloop.run(run(layout, log))
    except XceError as error:
        log.error("apiserver-not-started", extra={"why": str(error)})  # noqa: TRY400 - for people
        print(f"xce apiserver: {error}", file=sys.stderr)  # noqa: T201 - for people
        return 1


if __name__ == "__main__":
    sys.exit(main())
