"""`xceadmin rbac check`: whether a user may do something, and why."""

import json
import sys
from typing import Any

from xce.cli.xceadmin.hosts import STATUS_OF_CODE
from xce.client.rest import Api, ProblemError, UnreachableError
from xce.daemon.paths import find_layout
from xce.daemon.settings import Settings

WAIT_S = 10.0
DENIED = 4


def run_rbac(settings: Settings, user: str, permission: str, about: str, *, as_json: bool) -> int:
    """Say whether a user may do something, and why; return 0 for yes and 4 for no."""
    pairs = [("user", user), ("permission", permission), ("object", about)]
    status, found = _ask(settings, "rbac", "GET", "/rbac", pairs)
    if found is None:
        return status
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        word = "yes" if found["allowed"] else "no"
        print(f"{word}: {user} {permission} {found['object']}: {found['why']}")
    return 0 if found["allowed"] else DENIED


def _ask(
    settings: Settings, name: str, method: str, path: str, pairs: list[tuple[str, str]]
) -> tuple[int, Any]:
    """Return an answer of the apiserver, or None and an exit status, with the trouble told."""
    api = Api(str(find_layout(settings.state_dir).api_socket), wait_s=WAIT_S)
    try:
        return 0, api.call(method, path, pairs)
    except ProblemError as error:
        print(f"xceadmin {name}: {error.text}", file=sys.stderr)
        return {"unknown-job": 3, "unknown-queue": 3, **STATUS_OF_CODE}.get(error.code, 1), None
    except UnreachableError as error:
        print(f"xceadmin {name}: {error}", file=sys.stderr)
        return 5, None
    finally:
        api.close()
