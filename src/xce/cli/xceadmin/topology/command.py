"""`xceadmin topology import`: what would change in topology.yaml, and the change itself."""

import argparse
import difflib
import gzip
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from xce.cli.xceadmin.topology.found import Found, FoundError
from xce.cli.xceadmin.topology.ibnet import read_ibnet
from xce.cli.xceadmin.topology.machine import read_hwloc, read_nvidia_smi
from xce.cli.xceadmin.topology.page import Page, open_page, render_page
from xce.cli.xceadmin.topology.slurm import read_slurm
from xce.cli.xceadmin.topology.table import read_table
from xce.config.names import expand_names
from xce.config.parse import parse_config
from xce.daemon.config_directory import load_texts
from xce.daemon.paths import find_layout
from xce.daemon.settings import Settings
from xce.model.config import LEVELS, ClusterConfig
from xce.model.errors import ConfigError, TextError

FILE: Final = "topology.yaml"
FILE_BYTES_MAX: Final = 256 * 1024 * 1024
READERS: Final[Mapping[str, Callable[[str], Found]]] = {
    "slurm": read_slurm,
    "ibnetdiscover": read_ibnet,
    "nvidia-smi": read_nvidia_smi,
    "hwloc": read_hwloc,
    "csv": read_table,
}
_LISTED: Final = 8


def run_topology(settings: Settings, options: argparse.Namespace) -> int:
    """Show what a file would change, and change it with ``--apply``; return the exit status."""
    directory = options.config or find_layout(settings.state_dir).config
    try:
        files = load_texts(directory)
        config = parse_config(files)
        text = load_text(options.file)
        found = READERS[options.form or guess_form(text)](text)
        page, notes = merge(config, files.get(FILE, ""), found, options)
        after = render_page(page)
        parse_config({**files, FILE: after})
    except (FoundError, ConfigError, TextError, OSError) as error:
        print(f"xceadmin topology: {options.file}: {error}", file=sys.stderr)
        return 1
    before = files.get(FILE, "")
    diff = list(
        difflib.unified_diff(
            before.splitlines(), after.splitlines(), FILE, f"{FILE} (new)", lineterm="", n=1
        )
    )
    is_news = open_page(before) != page
    if options.json:
        answer = {"changed": is_news, "applied": is_news and options.apply, "notes": notes}
        print(json.dumps({**answer, "diff": diff if is_news else []}))
    else:
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
        print("\n".join(diff) if is_news else f"{FILE} says all of it already")
    if is_news and options.apply:
        _store(directory / FILE, after)
    if is_news and not options.json:
        what = (
            "written; 'xceadmin apply' puts it in effect"
            if options.apply
            else "nothing was written; --apply writes it"
        )
        print(what, file=sys.stderr)
    return 0


def load_text(path: Path) -> str:
    """Return the text of a file, unpacked if need be; ``-``: of the standard input.

    Raises:
        FoundError: It is too long.
        OSError: It cannot be read.
    """
    content = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    if content[:2] == b"\x1f\x8b":
        content = gzip.decompress(content)
    if len(content) > FILE_BYTES_MAX:
        raise FoundError(f"more than {FILE_BYTES_MAX >> 20} MiB")
    return content.decode("utf-8", "replace")


def guess_form(text: str) -> str:
    """Return the form of a text.

    Raises:
        FoundError: It looks like none.
    """
    head = text[:100_000]
    if "<topology" in head:
        return "hwloc"
    lowered = head.lower()
    if "switchname=" in lowered or "blockname=" in lowered:
        return "slurm"
    if "GPU0" in head and "CPU Affinity" in head:
        return "nvidia-smi"
    if "\nSwitch" in f"\n{head}":
        return "ibnetdiscover"
    if head.lstrip().lower().startswith(("host,", "name,", "hostname,")):
        return "csv"
    raise FoundError(f"its form is not known; say --format, one of {', '.join(READERS)}")


def merge(
    config: ClusterConfig, before: str, found: Found, options: argparse.Namespace
) -> tuple[Page, list[str]]:
    """Return topology.yaml with what was found, and what is to be said about it.

    Raises:
        FoundError: It does not fit.
    """
    page = open_page(before)
    known = {host.name for host in config.hosts}
    notes = list(found.notes)
    if found.gpus is not None:
        return _with_gpus(page, found, options.host, known), notes
    if options.host:
        raise FoundError("--host belongs to a file about one machine")
    levels = _levels(page, found, options.levels)
    missing = sorted(set(found.domains) - known)
    if missing:
        more = " ..." if len(missing) > _LISTED else ""
        listed = " ".join(missing[:_LISTED])
        notes.append(f"{len(missing)} hosts are not in hosts.yaml: {listed}{more}")
    silent = sorted(known - set(found.domains))
    if silent:
        more = " ..." if len(silent) > _LISTED else ""
        notes.append(f"nothing is said of {len(silent)} hosts: {' '.join(silent[:_LISTED])}{more}")
    labels = {name: dict(items) for name, items in page.labels.items()}
    for host, chain in found.domains.items():
        if host in known:
            own = labels.setdefault(host, {})
            own.update((level, label) for level, label in zip(levels, chain, strict=False) if label)
    if len(missing) == len(found.domains):
        more = " ..." if len(missing) > _LISTED else ""
        listed = " ".join(missing[:_LISTED])
        raise FoundError(f"none of its hosts ({listed}{more}) is in hosts.yaml")
    own_levels = page.levels
    if options.levels or (found.levels and not set(found.levels) <= set(page.levels or LEVELS)):
        own_levels = levels
    return page._replace(levels=own_levels, labels=labels), notes


def _levels(page: Page, found: Found, asked: str) -> tuple[str, ...]:
    """Return the name of each level that was found.

    Raises:
        FoundError: There are more levels than names.
    """
    names = tuple(filter(None, asked.split(","))) or found.levels or page.levels or LEVELS
    if len(names) < found.depth:
        raise FoundError(
            f"it has {found.depth} levels, and only {', '.join(names)} are known: name them, the "
            "narrowest first, as in --levels switch,block,pod"
        )
    return names


def _with_gpus(page: Page, found: Found, pattern: str, known: set[str]) -> Page:
    if not pattern:
        raise FoundError("it is about one machine: say which hosts are like it, with --host NAMES")
    names = expand_names(pattern)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise FoundError(f"host {unknown[0]!r} is not in hosts.yaml")
    assert found.gpus is not None
    return page._replace(gpus={**page.gpus, **dict.fromkeys(names, found.gpus)})


def _store(path: Path, text: str) -> None:
    """Write a file aside and move it into place."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_text(text, encoding="utf-8")
    aside.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o644)
    aside.replace(path)
