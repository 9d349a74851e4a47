"""Asking the controller itself, as an administrator: over its socket, or by key from elsewhere."""

import argparse
import asyncio
import os
import pwd
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from xce.client.version import VERSION
from xce.daemon.config_directory import load_site
from xce.daemon.key_files import KeyFileError, check_key, load_certificates
from xce.daemon.paths import Layout, find_layout
from xce.daemon.settings import Settings
from xce.model.address import parse_address
from xce.model.command import Command
from xce.model.errors import ConfigError, TextError
from xce.model.refusal import Refusal, RefusalCode
from xce.net.ask import ConnectionLostError, Requests
from xce.net.destination import Destination, dial_destination
from xce.net.handshake import ConnectionRefusedByPeerError, DialError, make_hello
from xce.net.message import Answer, Ask, Message
from xce.net.peer import Peer
from xce.net.tls import KeyPair, TlsDialler

FAILED, USAGE, NOT_FOUND, DENIED, UNREACHABLE = range(1, 6)
ASK_S: Final = 30.0
_STATUS: Final = {
    RefusalCode.UNKNOWN_KEY: NOT_FOUND,
    RefusalCode.UNKNOWN_HOST: NOT_FOUND,
    RefusalCode.DENIED: DENIED,
}


class AskError(Exception):
    """The controller cannot be asked; the text is for people."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


class Controller(NamedTuple):
    """The controller as an administrator reaches it."""

    destinations: tuple[Destination, ...]
    """Where it may be: one of them leads."""
    name: str
    """Whom the administrator's key names; on the same machine the kernel knows who asks."""
    elsewhere: tuple[str, ...] = ()
    """Controllers of other machines, which are not reached from here without a key."""

    def ask(self, *makes: Callable[[int], Message]) -> list[Message]:
        """Return the answers to some requests, in order.

        Raises:
            AskError: It cannot be asked.
        """
        try:
            return asyncio.run(self._ask(makes))
        except ConnectionRefusedByPeerError as error:
            raise AskError(str(error), DENIED) from error
        except (DialError, ConnectionLostError) as error:
            more = f"; others are {', '.join(self.elsewhere)}: --connect" if self.elsewhere else ""
            raise AskError(f"{error}{more}", UNREACHABLE) from error
        except TimeoutError as error:
            raise AskError("the controller has not answered in time", UNREACHABLE) from error

    def command(self, command: Command) -> Answer:
        """Have a command decided.

        Raises:
            AskError: It cannot be asked.
        """
        (answer,) = self.ask(lambda number: Ask(number, command))
        assert isinstance(answer, Answer)
        return answer

    async def _ask(self, makes: Sequence[Callable[[int], Message]]) -> list[Message]:
        requests = Requests()

        def hear(messages: list[Message]) -> None:
            for message in messages:
                requests.settle(message)

        peer = await self._dial(hear, requests.fail_all)
        try:
            return [await requests.request(peer, make, timeout_s=ASK_S) for make in makes]
        finally:
            peer.close()

    async def _dial(
        self, hear: Callable[[list[Message]], None], lose: Callable[[str], None]
    ) -> Peer:
        hello = make_hello("admin", self.name, VERSION)
        troubles: list[DialError] = []
        for destination in self.destinations:
            try:
                peer, _ = await dial_destination(
                    destination, hello, on_messages=hear, on_lost=lose, timeout_s=ASK_S
                )
            except DialError as error:
                # It stands by, or is not there.
                troubles.append(error)
            else:
                return peer
        raise DialError("; ".join(map(str, troubles)))


def add_where(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where the controller is and who asks."""
    parser.add_argument(
        "--connect", metavar="HOST:PORT", help="a controller on another host (default: this one's)"
    )
    parser.add_argument("--key", metavar="FILE", help="with --connect: an administrator's key")
    parser.add_argument(
        "--controller", metavar="FILE", help="with --connect: the controller's certificate"
    )
    parser.add_argument(
        "--as", dest="key_name", metavar="NAME", help="with --connect: the name that the key has"
    )


def find_controller(settings: Settings, options: argparse.Namespace) -> Controller:
    """Return the controller that the options mean.

    Raises:
        AskError: They mean none.
    """
    user = pwd.getpwuid(os.geteuid()).pw_name
    if not options.connect:
        here, elsewhere = _find_here(find_layout(settings.state_dir))
        return Controller(here, f"{user}@{socket.gethostname()}", elsewhere)
    if not (options.key and options.controller):
        raise AskError("--connect needs --key FILE and --controller FILE", USAGE)
    key = Path(options.key)
    try:
        address = parse_address(options.connect)
        pair = check_key(KeyPair(key.with_suffix(".crt"), key))
        controllers = load_certificates(Path(options.controller))
    except TextError as error:
        raise AskError(error.message, USAGE) from error
    except KeyFileError as error:
        raise AskError(str(error), FAILED) from error
    return Controller((TlsDialler(address, pair, controllers),), options.key_name or user)


def _find_here(layout: Layout) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Return the sockets of this machine where a controller may lead, and those of others."""
    try:
        named = load_site(layout.config).controllers
    except ConfigError:
        # The one that runs has read it when it was good.
        named = ()
    own = layout.controller_socket
    paths = dict.fromkeys((own, *(Path(text) for text in named if text.startswith("/"))))
    return tuple(paths), tuple(text for text in named if not text.startswith("/"))


def tell_results(program: str, answer: Answer, *, what: Sequence[str] = ()) -> int:
    """Print what came of a command; return the status of the first refusal."""
    status = 0
    for number, result in enumerate(answer.results):
        subject = f"{what[number]}: " if number < len(what) else ""
        if isinstance(result, Refusal):
            print(f"{program}: {subject}{result.text}", file=sys.stderr)
            status = status or _STATUS.get(result.code, FAILED)
        else:
            print(f"{subject}{result.text}")
    return status
