"""Where a cluster keeps what on this machine: the layout of its state directory.

Rule 1: every daemon takes its paths from a `Layout`; no other file spells them.
Rule 2: sockets lie in ``run`` and must fit into 107 bytes. Where the state directory's own path is
too long for that, ``run`` is a symbolic link to a short directory below ``/tmp``.
Rule 3: all of it belongs to whoever runs the cluster, mode 0700. When root runs it for other users,
they may enter it, reach the api socket and read configuration and logs; the peer sockets, the
journal and the history stay closed to them.
"""

import hashlib
import os
import stat
from pathlib import Path
from typing import Final, NamedTuple

from xce.model.errors import XceError

SOCKET_PATH_MAX: Final = 100
"""Longest path of a socket in bytes; the kernel takes 107."""
_SOCKET_NAME_MAX: Final = 40
"""Room that is kept for ``/peer/s-<host>.sock``; longer host names are hashed."""
_SHORT_ROOT: Final = "/tmp"  # the only place that every system has, with a short name


class StateDirectoryError(XceError):
    """The state directory cannot be used; the message says why and what to do."""


class Layout(NamedTuple):
    """The paths of one state directory; makes nothing, see `open_layout`."""

    root: Path
    """``$XCE_DIR``, absolute and free of links."""

    @property
    def run(self) -> Path:
        """Sockets and process ids; the real directory, never the symbolic link."""
        own = self.root / "run"
        if len(os.fsencode(own)) + _SOCKET_NAME_MAX <= SOCKET_PATH_MAX:
            return own
        digest = hashlib.blake2b(os.fsencode(self.root), digest_size=6).hexdigest()
        return Path(f"{_SHORT_ROOT}/xce-{os.geteuid()}-{digest}")

    @property
    def peer(self) -> Path:
        """Directory of the sockets between components, always 0700."""
        return self.run / "peer"

    @property
    def controller_socket(self) -> Path:
        """Where the controller hears its peers."""
        return self.peer / "c.sock"

    @property
    def api_socket(self) -> Path:
        """Where the apiserver hears users."""
        return self.run / "api.sock"

    def shepherd_socket(self, host: str) -> Path:
        """Where the shepherd of ``host`` hears its worker."""
        name = f"s-{host}.sock"
        if len(name) + len("/peer/") > _SOCKET_NAME_MAX:
            name = f"s-{hashlib.blake2b(host.encode(), digest_size=8).hexdigest()}.sock"
        return self.peer / name

    def launch_socket(self, host: str) -> Path:
        """Where processes of jobs on ``host`` ask its worker for tasks on other hosts."""
        name = f"l-{host}.sock"
        if len(name) + len("/peer/") > _SOCKET_NAME_MAX:
            name = f"l-{hashlib.blake2b(host.encode(), digest_size=8).hexdigest()}.sock"
        return self.run / name

    @property
    def node_manager_file(self) -> Path:
        """What the node manager runs: process ids, start times, restarts."""
        return self.run / "node-manager.json"

    @property
    def node_manager_lock(self) -> Path:
        """Held while a node manager lives."""
        return self.run / "node-manager.lock"

    @property
    def config(self) -> Path:
        """The configuration files."""
        return self.root / "config"

    @property
    def lsf(self) -> Path:
        """The files that readers of LSF's configuration look for."""
        return self.root / "lsf"

    @property
    def log(self) -> Path:
        """One file of JSON lines for each daemon."""
        return self.root / "log"

    def log_file(self, component: str) -> Path:
        """Return the log of a component: ``controller``, ``worker-<host>``, ..."""
        return self.log / f"{component}.log"

    @property
    def keys(self) -> Path:
        """Directory of the keys of this machine's components, always 0700."""
        return self.root / "keys"

    @property
    def journal(self) -> Path:
        """Directory of the journal, its lock and its snapshots."""
        return self.root / "journal"

    @property
    def journal_file(self) -> Path:
        """The journal's database, which also holds the blobs."""
        return self.journal / "journal.db"

    @property
    def journal_lock(self) -> Path:
        """Held while a controller leads."""
        return self.journal / "lock"

    @property
    def snapshots(self) -> Path:
        """Directory of the snapshots."""
        return self.journal / "snapshots"

    @property
    def history(self) -> Path:
        """Directory of the history store."""
        return self.root / "history"

    @property
    def mail_file(self) -> Path:
        """Mail to users that is still to be sent."""
        return self.history / "mail.db"

    @property
    def history_file(self) -> Path:
        """The history store's database."""
        return self.history / "history.db"

    @property
    def traces(self) -> Path:
        """Directory of the traces of sessions."""
        return self.root / "trace"

    @property
    def hosts(self) -> Path:
        """One directory for each host whose worker runs here."""
        return self.root / "hosts"

    def host(self, host: str) -> Path:
        """Return the directory of one host: run directories, scripts, kept output."""
        return self.hosts / host

    def hollow(self, prefix: str) -> Path:
        """Return the directory that hollow hosts with one prefix share; no host is called so."""
        return self.hosts / f".{prefix}"

    @property
    def bin(self) -> Path:
        """Launchers, where they cannot lie beside the interpreter's environment."""
        return self.root / "bin"


def open_layout(root: Path) -> Layout:
    """Return the layout of ``root`` with all its directories made, owned and closed as they must.

    May be called any number of times, by every daemon; what exists keeps its content.

    Raises:
        StateDirectoryError: A directory belongs to somebody else, is no directory, or cannot be
            made.
    """
    layout = find_layout(root)
    shared = os.geteuid() == 0
    entered, listed = (0o711, 0o755) if shared else (0o700, 0o700)
    _make(layout.root, listed)
    _make(layout.run, listed)
    _link_run(layout)
    for path, mode in (
        (layout.peer, 0o700),
        (layout.config, listed),
        (layout.log, listed),
        (layout.keys, 0o700),
        (layout.journal, 0o700),
        (layout.snapshots, 0o700),
        (layout.history, 0o700),
        (layout.traces, 0o700),
        (layout.hosts, entered),
    ):
        _make(path, mode)
    return layout


def find_layout(root: Path) -> Layout:
    """Return the layout of ``root`` without making or changing anything.

    Links are followed: a cluster is found by its processes' command lines, whatever it is called.
    """
    return Layout(root.resolve())


def _make(path: Path, mode: int) -> None:
    """Make a directory of exactly this mode, or take over one that is ours."""
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
        found = path.lstat() if path.parent == Path(_SHORT_ROOT) else path.stat()
    except OSError as error:
        raise StateDirectoryError(
            f"cannot make {path}: {error.strerror}; set XCE_DIR to a directory that you may write"
        ) from error
    if not stat.S_ISDIR(found.st_mode):
        raise StateDirectoryError(f"{path} is no directory; move it away")
    if found.st_uid != os.geteuid():
        raise StateDirectoryError(
            f"{path} belongs to user id {found.st_uid}, not to you ({os.geteuid()}); "
            "a cluster is run by the owner of its state directory"
        )
    if stat.S_IMODE(found.st_mode) != mode:
        path.chmod(mode)


def _link_run(layout: Layout) -> None:
    """Let ``run`` in the state directory lead to the directory that is used."""
    link = layout.root / "run"
    if link == layout.run:
        return
    try:
        if link.is_symlink() and Path(os.readlink(link)) == layout.run:  # noqa: PTH115
            return
        aside = layout.root / f".run-{os.getpid()}"
        aside.unlink(missing_ok=True)
        aside.symlink_to(layout.run)
        aside.replace(link)
    except OSError as error:
        raise StateDirectoryError(
            f"cannot link {link} to {layout.run}: {error.strerror}; remove {link}"
        ) from error
