"""The cluster that the environment names: on this machine, or one where the user logged in."""

from __future__ import annotations

from xce.client.rest import WAIT_S, Api
from xce.client.seen import open_seen
from xce.client.socket_path import socket_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def open_api(
    environ: Mapping[str, str],
    *,
    wait_s: float = WAIT_S,
    progress: Callable[[str], None] | None = None,
) -> Api:
    """Return the interface of the cluster that the environment names; connects on first use.

    ``XCE_URL`` names one on another machine, at which the user has logged in.
    """
    url = environ.get("XCE_URL")
    if url:
        # TLS costs time to load, which commands on the cluster's own machine do not spend.
        from xce.client.remote import open_remote  # noqa: PLC0415

        return open_remote(url, environ, wait_s=wait_s, progress=progress)
    path = socket_path(environ)
    return Api(path, wait_s=wait_s, seen=open_seen(environ, path), progress=progress)
