"""`xceadmin rbac check` and `xceadmin logins revoke`: what users may do, and their logins."""

import argparse
import json
from typing import Any

from xce.cli.xceadmin.apiserver import ask_apiserver
from xce.daemon.settings import Settings

WAIT_S = 10.0
DENIED = 4


def add_users(names: Any, common: argparse.ArgumentParser) -> None:  # noqa: ANN401 - argparse's
    """Add the commands about users to the command line."""
    rbac = names.add_parser("rbac", parents=[common], help="who may do what, and why")
    rbac.add_argument("action", choices=("check",))
    rbac.add_argument("user")
    rbac.add_argument("permission", help="such as job:kill")
    rbac.add_argument(
        "object", nargs="?", default="cluster",
        help="cluster (default), queue:NAME, project:PATH or job:ID",
    )  # fmt: skip

    logins = names.add_parser("logins", parents=[common], help="end logins of a user")
    logins.add_argument("action", choices=("revoke",))
    logins.add_argument("user")
    logins.add_argument("session", nargs="?", default="", help="one login (default: all)")

    audit = names.add_parser("audit", parents=[common], help="who did what, and what was denied")
    audit.add_argument("--user", default="", help="only this one's")
    audit.add_argument("--since", default="", metavar="TIME", help="2h, or 2026-01-31T12:00")
    audit.add_argument("--denied", action="store_true", help="only what was denied")
    audit.add_argument("-o", dest="form", choices=("table", "json"), default="table")


def run_rbac(settings: Settings, user: str, permission: str, about: str, *, as_json: bool) -> int:
    """Say whether a user may do something, and why; return 0 for yes and 4 for no."""
    pairs = [("user", user), ("permission", permission), ("object", about)]
    status, found = ask_apiserver(settings, "rbac", "GET", "/rbac", pairs, wait_s=WAIT_S)
    if found is None:
        return status
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        word = "yes" if found["allowed"] else "no"
        print(f"{word}: {user} {permission} {found['object']}: {found['why']}")
    return 0 if found["allowed"] else DENIED


def run_logins(settings: Settings, user: str, session: str) -> int:
    """End one login of a user, or all that he has; return the exit status."""
    document = {"user": user, "session": session}
    status, found = ask_apiserver(
        settings, "logins", "POST", "/logins/revoke", document=document, wait_s=WAIT_S
    )
    if found is not None:
        print(f"{'login ' + session if session else 'every login'} of {user} is ended")
    return status
