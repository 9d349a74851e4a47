"""The directory of configuration files: read them all, hand them to the parser."""

from pathlib import Path

from xce.calendars.zones import is_zone
from xce.config.parse import parse_config, parse_site_config
from xce.config.schema import FILES
from xce.config.site import SiteConfig
from xce.model.config import ClusterConfig
from xce.model.errors import ConfigError

_FILE_BYTES_MAX = 4 * 1024 * 1024


def load_config(directory: Path) -> ClusterConfig:
    """Return the checked configuration of a directory; one that does not exist has only defaults.

    Raises:
        ConfigError: Something is wrong; one line for each problem, with file, line and key.
    """
    config = parse_config(load_texts(directory))
    if not is_zone(config.time_zone):
        raise ConfigError(f"xce.yaml: time_zone: there is no time zone {config.time_zone!r}")
    return config


def load_site(directory: Path) -> SiteConfig:
    """Return what the configuration says to the daemons alone: the journal, the controllers.

    Raises:
        ConfigError: Something is wrong.
    """
    return parse_site_config(load_texts(directory))


def load_texts(directory: Path) -> dict[str, str]:
    """Return the text of each configuration file by its name.

    Files that are hidden or end in ``~``, ``.bak``, ``.orig`` or ``.md`` are nobody's business.

    Raises:
        ConfigError: Something in the directory cannot be read or is no file.
    """
    try:
        entries = sorted(directory.iterdir())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{directory}: cannot be read: {error.strerror}") from error
    texts = {}
    for path in entries:
        if path.name.startswith(".") or path.name.endswith(("~", ".bak", ".orig", ".md")):
            continue
        texts[path.name] = _load_text(path)
    return texts


def _load_text(path: Path) -> str:
    """Return the text of one file."""
    if path.is_dir():
        what = "is not built yet in this release" if path.name == "presets" else "is no file"
        raise ConfigError(f"{path.name}: {what}; files here are {', '.join(sorted(FILES))}")
    try:
        with path.open("rb") as file:
            content = file.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{path.name}: cannot be read: {error.strerror}") from error
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path.name}:{line}: is not UTF-8 text") from error
