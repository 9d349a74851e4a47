"""The launcher of each command: a few lines that start it without a virtual environment's cost.

LSF commands need the standard library only: ``-I`` and ``-S`` leave out the environment, the
current directory and ``site``. The others need the packages beside XCE, so they keep ``site``.
A first line may have 127 bytes and no blank in its path, and one argument; where it would not,
``/bin/sh`` starts the interpreter.
"""

import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

import xce
from xce.cli.lsf.absent import ABSENT

FIRST_LINE_MAX: Final = 127
OWN_COMMANDS: Final = {
    "xce": "xce.cli.xce.main",
    "xcecli": "xce.cli.xcecli.main",
    "xceadmin": "xce.cli.xceadmin.main",
}
IN_JOBS: Final = {
    "xce-launch": "xce.cli.launch.main",
    "xce-rsh": "xce.cli.launch.rsh",
}
"""Commands of jobs: they need the standard library only."""


def source_dir() -> Path:
    """Return the directory that holds the package ``xce``."""
    return Path(xce.__path__[0]).resolve().parent


def interpreter() -> Path:
    """Return the real interpreter: no link of a virtual environment, no shim."""
    return Path(sys.executable).resolve()


def each_lsf_command() -> Iterator[str]:
    """Yield the LSF commands of this release: files in ``xce/cli/lsf`` that have a ``main``."""
    for path in sorted((source_dir() / "xce" / "cli" / "lsf").glob("*.py")):
        if path.stem[0] in "bl" and "\ndef main(" in path.read_text(encoding="utf-8"):
            yield path.stem


def render_launchers() -> dict[str, str]:
    """Return the text of every launcher by its name."""
    packages = Path(msgspec.__path__[0]).parent
    # Looked into last, so it costs an LSF command nothing; 'bsub --explain' needs it.
    paths = [source_dir()] if packages == source_dir() else [source_dir(), packages]
    texts = {
        name: render_launcher(f"xce.cli.lsf.{name}", python=interpreter(), paths=paths)
        for name in each_lsf_command()
    }
    for name in ABSENT:
        # What has been built since is no longer absent.
        if name not in texts:
            texts[name] = render_launcher("xce.cli.lsf.absent", python=interpreter(), paths=paths)
    for name, module in IN_JOBS.items():
        texts[name] = render_launcher(module, python=interpreter(), paths=paths)
    for name, module in OWN_COMMANDS.items():
        texts[name] = render_launcher(
            module, python=Path(sys.executable), paths=paths, needs_site=True
        )
    return texts


def render_launcher(
    module: str, *, python: Path, paths: list[Path], needs_site: bool = False
) -> str:
    """Return the launcher of the command whose ``main`` is in ``module``.

    Args:
        module: Dotted name.
        python: The interpreter.
        paths: Where its imports are found, behind the standard library.
        needs_site: Keep ``site``: the command imports third-party packages.
    """
    added = ", ".join(repr(str(path)) for path in paths)
    flags = "-I" if needs_site else "-IS"
    # Until `main` can answer it, an interrupt ends the process as it ends any program's.
    body = (
        "import sys, _signal\n"
        "heeds = _signal.getsignal(2) is _signal.default_int_handler\n"
        "if heeds: _signal.signal(2, _signal.SIG_DFL)\n"
        f"sys.path += [{added}]\nfrom {module} import main\n"
        "if heeds: _signal.signal(2, _signal.default_int_handler)\n"
        "sys.exit(main())\n"
    )
    first = f"#!{python} {flags}"
    if len(os.fsencode(first)) <= FIRST_LINE_MAX and not any(c.isspace() for c in str(python)):
        return f"{first}\n{body}"
    # Read twice: by the shell, for which the second line is a command that never returns, and by
    # Python, for which lines two and three are a text.
    return f"#!/bin/sh\n''':'\nexec {shlex.quote(str(python))} {flags} \"$0\" \"$@\"\n'''\n{body}"


def store_launchers(state_dir: Path) -> Path:
    """Write the launchers where they are missing or old; return their directory.

    They lie beside the virtual environment, where all users of this installation share them; where
    that cannot be written, in the state directory.

    Raises:
        OSError: Neither can be written.
    """
    texts = render_launchers()
    shared = Path(sys.prefix) / "xce-bin"
    if sys.prefix != sys.base_prefix:
        if _is_current(shared, texts):
            return shared
        try:
            _store(shared, texts)
        except OSError:
            pass
        else:
            return shared
    own = state_dir / "bin"
    if not _is_current(own, texts):
        _store(own, texts)
    return own


def _is_current(directory: Path, texts: dict[str, str]) -> bool:
    """Return whether every launcher is there, as it should be."""
    try:
        return all((directory / name).read_text() == text for name, text in texts.items())
    except OSError:
        return False


def _store(directory: Path, texts: dict[str, str]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0 or directory.parent == Path(sys.prefix):
        directory.chmod(0o755)
    for name, text in texts.items():
        path = directory / name
        aside = path.with_name(f".{name}.{os.getpid()}")
        aside.write_text(text)
        aside.chmod(0o755)
        aside.replace(path)
    for path in directory.iterdir():
        if path.name not in texts and not path.name.startswith("."):
            path.unlink()
