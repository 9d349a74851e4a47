"""`xceadmin keys`: make keys, trust them, revoke them, let new hosts enrol."""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from xce.cli.xceadmin.asking import (
    FAILED,
    USAGE,
    AskError,
    Controller,
    add_where,
    find_controller,
    tell_results,
)
from xce.cli.xceadmin.columns import render_columns
from xce.daemon.host_token import make_token
from xce.daemon.key_files import (
    KeyFileError,
    load_certificates,
    load_label,
    make_key,
    store_file,
    store_key,
)
from xce.daemon.paths import open_layout
from xce.daemon.settings import Settings
from xce.model.certificate import parse_certificate
from xce.model.command import MakeHostToken, RevokeKeys, TrustKey
from xce.model.errors import TextError
from xce.model.ids import Micros
from xce.model.trust import CONTROLLER, KEY_ROLES
from xce.model.units import parse_span_us
from xce.net.message import KeyList, ListKeys, ListPeers, PeerList
from xce.state.trust import is_expired

TOKEN_LIFE: Final = "1h"
SHOWN: Final = 16
"""Digits of a fingerprint that are shown; any 8 or more name a key."""
_PROGRAM: Final = "xceadmin keys"


def add_keys(names: Any, common: argparse.ArgumentParser) -> None:  # noqa: ANN401 - argparse's own
    """Add ``keys`` and ``peers`` to the command line."""
    keys = names.add_parser("keys", help="keys of components: make, trust, list, revoke, tokens")
    actions = keys.add_subparsers(dest="action", required=True, metavar="ACTION")
    new = actions.add_parser(
        "new", parents=[common], help="make a key; its private part stays here"
    )
    new.add_argument("role", choices=KEY_ROLES)
    new.add_argument("key_name", metavar="NAME")
    new.add_argument(
        "--out", type=Path, metavar="DIR", help="(default: keys of the state directory)"
    )
    trust = actions.add_parser("trust", parents=[common], help="trust a key by its certificate")
    trust.add_argument("file", type=Path, help="the .crt file")
    trust.add_argument("--role", choices=KEY_ROLES, help="(default: what the file says)")
    trust.add_argument("--name", dest="key_for", help="name or pattern (default: the file's)")
    trust.add_argument("--expires", metavar="SPAN", help="such as 365d (default: never)")
    actions.add_parser("list", parents=[common], help="which keys are trusted or revoked")
    revoke = actions.add_parser("revoke", parents=[common], help="never trust keys again")
    revoke.add_argument("keys", nargs="+", metavar="KEY", help="8 digits of a fingerprint, or more")
    revoke.add_argument("--why", default="", metavar="TEXT")
    token = actions.add_parser("token", parents=[common], help="let one host enrol, once")
    token.add_argument("host")
    token.add_argument("--expires", default=TOKEN_LIFE, metavar="SPAN", help="(default: 1h)")
    token.add_argument("--key-expires", metavar="SPAN", help="life of its key (default: for ever)")
    token.add_argument("--out", type=Path, metavar="FILE", help="(default: print it)")
    peers = names.add_parser(
        "peers", parents=[common], help="who is connected to the controller; what was refused"
    )
    for parser in (*actions.choices.values(), peers):
        if parser is not new:
            add_where(parser)


def run_keys(settings: Settings, options: argparse.Namespace) -> int:
    """Run an action; return its exit status."""
    try:
        if options.action == "new":
            return _run_new(settings, options)
        controller = find_controller(settings, options)
        match options.action:
            case "trust":
                return _run_trust(controller, options)
            case "list":
                return _run_list(controller, as_json=options.json)
            case "revoke":
                command = RevokeKeys(controller.name, tuple(options.keys), options.why[:200])
                return tell_results(_PROGRAM, controller.command(command), what=options.keys)
            case _:
                return _run_token(controller, options)
    except AskError as error:
        print(f"{_PROGRAM}: {error}", file=sys.stderr)
        return error.status
    except TextError as error:
        print(f"{_PROGRAM}: {error.message}", file=sys.stderr)
        return USAGE
    except KeyFileError as error:
        print(f"{_PROGRAM}: {error}", file=sys.stderr)
        return FAILED


def run_peers(settings: Settings, options: argparse.Namespace) -> int:
    """Print who is connected, and what was refused."""
    try:
        (found,) = find_controller(settings, options).ask(ListPeers)
    except AskError as error:
        print(f"xceadmin peers: {error}", file=sys.stderr)
        return error.status
    assert isinstance(found, PeerList)
    if options.json:
        peers = [
            {
                "role": peer.role, "name": peer.name, "version": peer.version,
                "protocol": peer.protocol, "how": peer.how, "key": peer.key,
                "address": peer.address, "since_at": peer.since_us / 1_000_000,
            }
            for peer in found.peers
        ]  # fmt: skip
        refused = dict(found.refused)
        document = {"peers": peers, "refused": refused, "half_open": found.half_open}
        print(json.dumps(document, indent=2))
        return 0
    rows = [("ROLE", "NAME", "HOW", "KEY", "ADDRESS", "VERSION", "SINCE")]
    rows += [
        (peer.role, peer.name, peer.how, peer.key[:SHOWN] or "-", peer.address, peer.version,
         _render_time(peer.since_us))
        for peer in found.peers
    ]  # fmt: skip
    print(render_columns(rows))
    if found.refused:
        print("\nrefused since the controller's start:")
        for why, count in found.refused:
            print(f"  {count:>6}  {why}")
    return 0


def _run_new(settings: Settings, options: argparse.Namespace) -> int:
    directory = options.out or open_layout(settings.state_dir).keys
    made = make_key(options.role, options.key_name)
    label = (options.role, options.key_name)
    stem = f"{options.role}-{options.key_name}"
    pair = store_key(directory, stem, made, label=label)
    print(f"key         {pair.key}    (stays here)")
    print(f"certificate {pair.certificate}    (give it to `xceadmin keys trust`)")
    print(f"fingerprint {made.fingerprint}")
    return 0


def _run_trust(controller: Controller, options: argparse.Namespace) -> int:
    (certificate, *more) = load_certificates(options.file)
    if more:
        raise KeyFileError(f"{options.file} has several certificates: one at a time")
    said = load_label(options.file)
    role, name = options.role or said[0], options.key_for or said[1]
    if not (role and name):
        raise KeyFileError(f"{options.file} does not say whose it is: add --role and --name")
    expires_at_us = _at_us(options.expires)
    command = TrustKey(controller.name, certificate, role, name, expires_at_us)
    status = tell_results(_PROGRAM, controller.command(command), what=[f"{role} {name}"])
    if status == 0:
        print(f"fingerprint {parse_certificate(certificate).fingerprint}")
    return status


def _run_list(controller: Controller, *, as_json: bool) -> int:
    (found,) = controller.ask(ListKeys)
    assert isinstance(found, KeyList)
    trusted = sorted(found.keys, key=lambda item: (item.role, item.name, item.trusted_at_us))
    revoked = sorted(found.revoked, key=lambda item: item.revoked_at_us)
    tokens = [item for item in found.tokens if item.expires_at_us > found.now_us]
    if as_json:
        document = {
            "keys": [
                {"key": item.key, "role": item.role, "name": item.name, "by": item.by,
                 "trusted_at": _seconds(item.trusted_at_us),
                 "expires_at": _seconds(item.expires_at_us),
                 "expired": is_expired(item, found.now_us)}
                for item in trusted
            ],
            "revoked": [
                {"key": item.key, "role": item.role, "name": item.name, "by": item.by,
                 "revoked_at": _seconds(item.revoked_at_us), "why": item.why}
                for item in revoked
            ],
            "tokens": [
                {"token": item.token, "host": item.host, "by": item.by,
                 "expires_at": _seconds(item.expires_at_us), "used_by": item.used_by}
                for item in tokens
            ],
        }  # fmt: skip
        print(json.dumps(document, indent=2))
        return 0
    rows = [("KEY", "ROLE", "NAME", "STATE", "UNTIL", "BY")]
    rows += [
        (item.key[:SHOWN], item.role, item.name,
         "expired" if is_expired(item, found.now_us) else "trusted",
         _render_time(item.expires_at_us), item.by)
        for item in trusted
    ]  # fmt: skip
    rows += [
        (item.key[:SHOWN], item.role or "-", item.name or "-", "revoked", "for ever", item.by)
        for item in revoked
    ]
    rows += [
        ("-", "worker", item.host, "enrolled" if item.used_by else "may enrol",
         _render_time(item.expires_at_us), item.by)
        for item in tokens
    ]  # fmt: skip
    print(render_columns(rows))
    return 0


def _run_token(controller: Controller, options: argparse.Namespace) -> int:
    (found,) = controller.ask(ListKeys)
    assert isinstance(found, KeyList)
    controllers = [
        item
        for item in found.keys
        if item.role == CONTROLLER and not is_expired(item, found.now_us)
    ]
    if not controllers:
        raise KeyFileError("the controller has no key: `xceadmin init` makes one, with listen:")
    token = make_token(options.host, (item.key for item in controllers))
    expires_at_us = _at_us(options.expires)
    command = MakeHostToken(
        controller.name, token.token, token.digest, options.host, expires_at_us,
        _at_us(options.key_expires),
    )  # fmt: skip
    (result,) = controller.command(command).results
    if result.text != "made":
        print(f"{_PROGRAM}: {result.text}", file=sys.stderr)
        return FAILED
    if options.out is None:
        print(token.render())
        return 0
    try:
        store_file(options.out, token.render().encode() + b"\n")
    except OSError as error:
        raise KeyFileError(f"{options.out}: cannot be written: {error.strerror}") from error
    print(f"{options.out}: a token for host {options.host}, until {_render_time(expires_at_us)}")
    return 0


def _at_us(span: str | None) -> Micros:
    """Return the instant that lies a span ahead; 0 where none is given."""
    if not span:
        return 0
    return time.time_ns() // 1000 + parse_span_us(span)


def _seconds(at_us: Micros) -> float | None:
    return at_us / 1_000_000 if at_us else None


def _render_time(at_us: Micros) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at_us / 1e6)) if at_us else "-"
