"""What the environment of a daemon says; the only daemon file that reads it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from xce.model.errors import XceError

ROOT_STATE_DIR: Final = Path("/var/lib/xce")
"""State directory of a cluster that root runs."""


class SettingsError(XceError):
    """The environment says something that cannot be used."""


class Settings(NamedTuple):
    """What the environment says."""

    state_dir: Path
    """Absolute and free of links, so that a cluster is the same by whatever name; exists or not."""
    is_default: bool
    """Whether it is where clients look without being told."""


def default_state_dir() -> Path:
    """Return the state directory of a user who says nothing."""
    if os.geteuid() == 0:
        return ROOT_STATE_DIR
    return Path("~/.xce").expanduser()


def load_settings(given: str | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Return the settings; ``given`` (an option ``--dir``) wins over ``XCE_DIR``.

    Raises:
        SettingsError: The path is empty or holds a character that no path may hold here.
    """
    named = given if given is not None else (environ or os.environ).get("XCE_DIR")
    default = default_state_dir().resolve()
    if named is None:
        return Settings(default, is_default=True)
    if not named.strip():
        raise SettingsError("the state directory is empty: unset XCE_DIR or name a directory")
    if "\0" in named or "\n" in named:
        raise SettingsError("the state directory's name holds a newline or a NUL byte")
    try:
        path = Path(named).expanduser().resolve()
    except (OSError, RuntimeError) as error:
        raise SettingsError(f"the state directory {named} cannot be looked up: {error}") from error
    if path.exists() and not path.is_dir():
        raise SettingsError(f"the state directory {named} is no directory; move it away")
    return Settings(path, is_default=path == default)
