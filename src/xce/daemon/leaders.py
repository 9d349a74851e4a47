"""Where the controllers of a cluster listen."""

from pathlib import Path

from xce.daemon.config_directory import load_site
from xce.daemon.paths import Layout


def find_controllers(layout: Layout) -> tuple[Path, ...]:
    """Return where controllers listen; by default the one of the state directory.

    Raises:
        ConfigError: The configuration cannot be used.
    """
    named = load_site(layout.config).controllers
    return tuple(Path(path) for path in named) or (layout.controller_socket,)
