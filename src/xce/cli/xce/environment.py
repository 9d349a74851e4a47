"""`xce env`: what a shell must evaluate to use a cluster, and the words that say so."""

import os
import shlex
import sys
from pathlib import Path

from xce.cli.xce.launchers import store_launchers
from xce.daemon.settings import ROOT_STATE_DIR, Settings


def run_env(settings: Settings) -> int:
    """Print the export commands for a shell; return the exit status."""
    chosen = choose_cluster(settings)
    try:
        launchers = store_launchers(chosen.state_dir)
    except OSError as error:
        print(f"xce env: cannot write the launchers: {error}", file=sys.stderr)
        return 1
    for line in render_env(chosen, launchers, path=os.environ.get("PATH", "")):
        print(line)
    return 0


def choose_cluster(settings: Settings) -> Settings:
    """Return the settings, or those of root's cluster for a user who has none of their own."""
    is_nowhere = settings.is_default and not (settings.state_dir / "run" / "api.sock").exists()
    if is_nowhere and (ROOT_STATE_DIR / "run" / "api.sock").exists():
        return Settings(ROOT_STATE_DIR, is_default=settings.state_dir == ROOT_STATE_DIR)
    return settings


def render_env(settings: Settings, launchers: Path, *, path: str) -> list[str]:
    """Return the export commands; evaluating them twice leaves PATH as it is after once."""
    lines = []
    if path.split(":", maxsplit=1)[0] != str(launchers):
        lines.append(f'export PATH={shlex.quote(str(launchers))}:"$PATH"')
    view = settings.state_dir / "lsf" / "conf"
    if (view / "lsf.conf").exists():
        lines.append(f"export LSF_ENVDIR={shlex.quote(str(view))}")
    if not settings.is_default or "XCE_DIR" in os.environ:
        lines.append(f"export XCE_DIR={shlex.quote(str(settings.state_dir))}")
    return lines


def render_how_to_go_on(settings: Settings) -> list[str]:
    """Return the lines that tell how a cluster is used and how it is ended."""
    command = shlex.quote(str(Path(sys.prefix) / "bin" / "xce"))
    option = "" if settings.is_default else f" --dir {shlex.quote(str(settings.state_dir))}"
    return [
        f'use it:     eval "$({command} env{option})"    then bsub, bjobs, bhosts, xcecli, ...',
        f"end it:     {command} down{option}    (jobs go on; with --jobs they are ended first)",
    ]
