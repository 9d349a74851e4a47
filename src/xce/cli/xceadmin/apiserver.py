"""One request of an administrator to the apiserver: its answer, or the trouble told."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from xce.client.rest import Api, ProblemError, UnreachableError, make_key
from xce.daemon.paths import find_layout
from xce.daemon.settings import Settings

STATUS_OF_CODE: Final = {
    "unknown-host": 3, "unknown-job": 3, "unknown-rule": 3, "unknown-queue": 3,
    "denied": 4, "not-yours": 4,
}  # fmt: skip
"""Exit statuses of refusals; all others are 1."""
UNREACHABLE: Final = 5


def ask_apiserver(
    settings: Settings,
    command: str,
    method: str,
    path: str,
    query: Sequence[tuple[str, str]] = (),
    document: object = None,
    *,
    wait_s: float,
    progress: Callable[[str], None] | None = None,
) -> tuple[int, Any]:
    """Return 0 and the answer, or an exit status and None, with the trouble told.

    Args:
        settings: Of which cluster.
        command: Which command's name stands before what is told.
        method: As `Api.call`, like ``path``, ``query`` and ``document``.
        path: See there.
        query: See there.
        document: See there; it goes with a key, so that it may be sent again.
        wait_s: So long an unreachable cluster is tried.
        progress: Hears that it is tried again.
    """
    socket = str(find_layout(settings.state_dir).api_socket)
    api = Api(socket, wait_s=wait_s, progress=progress)
    try:
        key = make_key() if document is not None else ""
        return 0, api.call(method, path, query, document, key=key)
    except ProblemError as error:
        print(f"xceadmin {command}: {error.text}", file=sys.stderr)
        return STATUS_OF_CODE.get(error.code, 1), None
    except UnreachableError as error:
        print(f"xceadmin {command}: {error}", file=sys.stderr)
        return UNREACHABLE, None
    finally:
        api.close()


def tell(text: str) -> None:
    """Print what is told meanwhile."""
    print(text, file=sys.stderr)
