"""Where the commands find the cluster."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def socket_path(environ: Mapping[str, str]) -> str:
    """Return where the cluster's apiserver listens.

    That is ``XCE_API_SOCKET``, else below ``XCE_DIR``, else beside the files that ``LSF_ENVDIR``
    names: programs that know LSF only pass on that much, and little else.
    """
    named = environ.get("XCE_API_SOCKET")
    if named:
        return named
    root = environ.get("XCE_DIR") or _root_of_view(environ.get("LSF_ENVDIR", ""))
    if not root:
        root = "/var/lib/xce" if os.geteuid() == 0 else "~/.xce"
    # Links are followed, so that the cluster is the same by whatever name.
    return f"{os.path.realpath(os.path.expanduser(root))}/run/api.sock"


def _root_of_view(directory: str) -> str:
    """Return the state directory that XCE's ``lsf.conf`` lies in; empty: it is none of XCE's."""
    root = directory.rstrip("/").removesuffix("/lsf/conf")
    is_view = root != directory.rstrip("/") and os.path.exists(f"{root}/run")
    return root if is_view else ""
