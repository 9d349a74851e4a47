"""Where a journal, or a history, is moved to: its options, and what then stands in ``xce.yaml``."""

import argparse
from pathlib import Path
from typing import Final, Literal

import msgspec

from xce.config.parse import parse_site_config
from xce.config.site import DatabaseSite, SiteConfig
from xce.daemon.paths import Layout
from xce.model.errors import ConfigError

FILES: Final = "files"
"""What ``--to`` says for a place in the state directory."""
Section = Literal["journal", "history"]


def make_common() -> argparse.ArgumentParser:
    """Return the options of every command once more, so that they may stand behind an action."""
    again = argparse.ArgumentParser(
        add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS
    )
    again.add_argument("--dir", help="state directory (default: $XCE_DIR, else ~/.xce)")
    again.add_argument("--json", action="store_true", help="JSON instead of a table")
    return again


def add_target(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where something goes."""
    parser.add_argument(
        "--to", dest="target", required=True, metavar="WHERE",
        help="postgresql://user@host1,host2/database, or: files",
    )  # fmt: skip
    parser.add_argument("--password-file", default="", metavar="FILE")
    parser.add_argument("--password-env", default="", metavar="NAME")


def parse_target(section: Section, options: argparse.Namespace) -> SiteConfig | None:
    """Return a configuration whose section is what the options say; None: files.

    Raises:
        ConfigError: They name no database.
    """
    to, file, env = options.target, options.password_file, options.password_env
    if to == FILES:
        if file or env:
            raise ConfigError("files need no password")
        return None
    fields = {"postgres": to, "password_file": file, "password_env": env}
    quoted = ", ".join(
        f"{name}: {msgspec.json.encode(text).decode()}" for name, text in fields.items() if text
    )
    return parse_site_config({"xce.yaml": f"{section}: {{{quoted}}}"})


def render_next(
    layout: Layout, section: Section, site: DatabaseSite | None, before: tuple[Path, ...]
) -> str:
    """Return what is to be done when it was moved.

    Args:
        layout: The state directory.
        section: What was moved.
        site: The database; None: files.
        before: Where it was, in files.
    """
    config = layout.config / "xce.yaml"
    if site is None:
        return f"now remove the section {section} from {config}, and start with `xce up`"
    lines = [f"  postgres: {site.postgres}"]
    if site.password_file:
        lines.append(f"  password_file: {site.password_file}")
    if site.password_env:
        lines.append(f"  password_env: {site.password_env}")
    text = "\n".join([f"{section}:", *lines])
    old = " and ".join(map(str, before))
    is_many = len(before) > 1
    return (
        f"now write into {config}, on the machine of each controller:\n{text}\n"
        f"start with `xce up`, and keep {old} away from then on: "
        f"{'they are' if is_many else 'it is'} not written any more"
    )
