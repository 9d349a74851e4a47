"""`xceadmin init`: a cluster of several hosts from nothing: configuration, keys, who is trusted."""

import argparse
import os
import pwd
import sys
from typing import Any

from xce.cli.xceadmin.asking import FAILED, USAGE
from xce.daemon.fresh_config import HostsWanted, machine_name, write_fresh_config
from xce.daemon.key_files import (
    FIRST_TRUSTED,
    OWN_KEY,
    KeyFileError,
    key_pair,
    make_key,
    store_file,
    store_key,
)
from xce.daemon.paths import Layout, StateDirectoryError, open_layout
from xce.daemon.settings import Settings
from xce.model.address import parse_address
from xce.model.errors import ConfigError, TextError
from xce.model.trust import CONTROLLER


def add_init(names: Any, common: argparse.ArgumentParser) -> None:  # noqa: ANN401 - argparse's own
    """Add ``init`` to the command line."""
    init = names.add_parser(
        "init", parents=[common], help="make a cluster of several hosts: configuration and keys"
    )
    init.add_argument("--listen", required=True, metavar="HOST:PORT", help="where hosts connect")
    init.add_argument("--cluster", default="xce", metavar="NAME", help="(default: xce)")
    init.add_argument("--hosts", metavar="NAMES", help='"h[1-3]" (default: this machine)')


def run_init(settings: Settings, options: argparse.Namespace) -> int:
    """Make what a controller for several hosts needs; return the exit status."""
    try:
        address = parse_address(options.listen)
        layout = open_layout(settings.state_dir)
        pair = key_pair(layout.keys, OWN_KEY)
        if pair.key.exists():
            print(f"xceadmin init: {pair.key} is there already", file=sys.stderr)
            return FAILED
        has_config = (layout.config / "xce.yaml").exists()
        write_fresh_config(
            layout.config,
            HostsWanted(names=options.hosts),
            cluster_name=options.cluster,
            listen=str(address),
        )
        user, controller = _make_keys(layout)
    except TextError as error:
        print(f"xceadmin init: {error.message}", file=sys.stderr)
        return USAGE
    except (ConfigError, KeyFileError, StateDirectoryError, OSError) as error:
        print(f"xceadmin init: {error}", file=sys.stderr)
        return FAILED
    print(f"state       {layout.root}")
    print(f"controller  {controller}    (fingerprint; hosts get it in their token)")
    print(f"admin       {layout.keys / f'admin-{user}.key'}    (for other machines)")
    if has_config:
        print(f"\n{layout.config / 'xce.yaml'} was there before; add to it:  listen: {address}")
    print(f"\nnext: the hosts in {layout.config / 'hosts.yaml'}, then `xce up`, then for each host")
    print("  here:   xceadmin keys token HOST --out HOST.token        (carry the file there)")
    print(f"  there:  xce worker --enrol HOST.token --connect {address}")
    return 0


def _make_keys(layout: Layout) -> tuple[str, str]:
    """Make the controller's and the first administrator's key; return who that is, and the former's
    fingerprint.
    """
    user = pwd.getpwuid(os.geteuid()).pw_name
    admin = store_key(
        layout.keys, f"admin-{user}", make_key("admin", user), label=("admin", user), replace=True
    )
    text = f"# Whom a new cluster trusts at its first start: role, name, file.\nadmin {user} "
    store_file(layout.keys / FIRST_TRUSTED, f"{text}{admin.certificate.name}\n".encode())
    made = make_key(CONTROLLER, machine_name())
    # Last of all: with it the cluster counts as made.
    store_key(layout.keys, OWN_KEY, made, label=(CONTROLLER, machine_name()))
    return user, made.fingerprint
