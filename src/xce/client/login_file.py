"""Tokens of this user in files of his own: one for each cluster, closed to everybody else."""

from __future__ import annotations

import contextlib
import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

SIZE_MAX = 1 << 20


class LoginFileError(Exception):
    """The file cannot be used; the text says why."""


def login_path(environ: Mapping[str, str], url: str) -> str:
    """Return where the login at ``url`` is kept."""
    root = environ.get("XDG_CONFIG_HOME", "")
    if not root.startswith("/"):
        root = os.path.expanduser("~/.config")
    name = "".join(
        sign if sign.isascii() and (sign.isalnum() or sign in ".-") else "_"
        for sign in url.removeprefix("https://").rstrip("/")
    )
    return f"{root}/xce/logins/{name[:200]}.json"


def load_login(path: str) -> dict[str, Any] | None:
    """Return a login; None: there is none.

    Raises:
        LoginFileError: It is not this user's alone, or cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LoginFileError(f"{path}: {error.strerror}") from error
    try:
        found = os.fstat(descriptor)
        is_file = found.st_mode & 0o170000 == 0o100000
        if not is_file or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise LoginFileError(
                f"{path}: it is not a file of yours that is closed to others (chmod 600); "
                "remove it and log in again"
            )
        content = b""
        while len(content) <= SIZE_MAX:
            part = os.read(descriptor, 1 << 16)
            if not part:
                break
            content += part
    finally:
        os.close(descriptor)
    try:
        value = json.loads(content)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise LoginFileError(f"{path}: it is damaged; log in again")
    return value


def store_login(path: str, login: Mapping[str, Any]) -> None:
    """Write a login aside, closed to others from the beginning, and move it into place.

    Raises:
        LoginFileError: It cannot be written, or its directory is open to others.
    """
    directory = os.path.dirname(path)
    aside = f"{path}.{os.getpid()}"
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        found = os.lstat(directory)
        is_directory = found.st_mode & 0o170000 == 0o040000
        if not is_directory or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise LoginFileError(f"{directory}: others may write there")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(aside, flags, 0o600)
        try:
            os.write(descriptor, json.dumps(dict(login), indent=1).encode())
        finally:
            os.close(descriptor)
        os.replace(aside, path)
    except OSError as error:
        raise LoginFileError(f"{path}: {error.strerror}") from error


@contextlib.contextmanager
def lock_login(path: str) -> Iterator[None]:
    """Keep other commands of this user from prolonging the same login meanwhile.

    Where no lock can be had it goes on without: then the server bears with it for a minute.
    """
    import fcntl  # noqa: PLC0415 - most commands need no lock

    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = -1
    with contextlib.suppress(OSError):
        descriptor = os.open(f"{path}.lock", flags, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def remove_login(path: str) -> None:
    """Forget a login."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
