"""``topology.yaml`` as `xceadmin topology import` reads and writes it."""

from collections import defaultdict
from typing import Any, NamedTuple

import yaml

from xce.cli.xceadmin.topology.found import FoundError, GpusFound
from xce.config.names import expand_names, fold_names
from xce.model.errors import TextError
from xce.model.units import parse_supply_mib


class Page(NamedTuple):
    """What the file says."""

    levels: tuple[str, ...]
    default_level: str
    labels: dict[str, dict[str, str]]
    """By host."""
    gpus: dict[str, GpusFound]
    """By host."""


def open_page(text: str) -> Page:
    """Return what a file says that was checked before.

    Raises:
        FoundError: GPUs stand in it in a form that only a person could have written.
    """
    document: Any = yaml.load(text, Loader=yaml.BaseLoader) or {}
    labels: dict[str, dict[str, str]] = {}
    for item in document.get("domains", ()):
        for host in _hosts(item):
            labels.setdefault(host, {}).update(item["labels"])
    gpus: dict[str, GpusFound] = {}
    for item in document.get("gpus", ()):
        gpus.update(dict.fromkeys(_hosts(item), _gpus(item["gpus"])))
    levels = tuple(document.get("levels", ()))
    return Page(levels, document.get("default_level", ""), labels, gpus)


def _hosts(item: dict[str, Any]) -> tuple[str, ...]:
    named = item["hosts"]
    try:
        return expand_names(named if isinstance(named, str) else ",".join(named))
    except TextError as error:
        raise FoundError(error.message) from error


def _gpus(item: dict[str, Any]) -> GpusFound:
    others = sorted(set(item) - {"count", "model", "mem", "nvlink", "numa"})
    if others:
        raise FoundError(f"topology.yaml: gpus.{others[0]} would be lost: move it to hosts.yaml")
    return GpusFound(
        int(item["count"]),
        item.get("model", ""),
        parse_supply_mib(item["mem"]) if "mem" in item else 0,
        tuple(tuple(map(int, domain)) for domain in item.get("nvlink", ())),
        tuple(map(int, item.get("numa", ()))),
    )


def render_page(page: Page) -> str:
    """Return the text of the file; equal pages have equal texts."""
    lines = ["# In which domains hosts lie. `xceadmin topology import` writes this file anew."]
    if page.levels:
        lines.append(f"levels: [{', '.join(page.levels)}]")
    if page.default_level:
        lines.append(f"default_level: {page.default_level}")
    alike: dict[tuple[tuple[str, str], ...], list[str]] = defaultdict(list)
    for host, labels in page.labels.items():
        if labels:
            alike[tuple(labels.items())].append(host)
    if alike:
        lines.append("domains:")
    for labels_of, hosts in sorted(alike.items(), key=lambda item: (item[0][::-1], item[1])):
        inner = ", ".join(f"{level}: {_quoted(label)}" for level, label in labels_of)
        lines.append(f'  - {{hosts: "{fold_names(hosts)}", labels: {{{inner}}}}}')
    like: dict[GpusFound, list[str]] = defaultdict(list)
    for host, gpus in page.gpus.items():
        like[gpus].append(host)
    if like:
        lines.append("gpus:")
    for gpus, hosts in sorted(like.items(), key=lambda item: sorted(item[1])):
        lines.append(f'  - {{hosts: "{fold_names(hosts)}", gpus: {_render_gpus(gpus)}}}')
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    plain = text.replace("-", "").replace(".", "").replace("_", "")
    is_plain = plain.isascii() and plain.isalnum() and not plain[0].isdigit()
    return text if is_plain else "'" + text.replace("'", "''") + "'"


def _render_gpus(gpus: GpusFound) -> str:
    parts = [f"count: {gpus.size}"]
    if gpus.model:
        parts.append(f"model: {_quoted(gpus.model)}")
    if gpus.mem_mib:
        parts.append(f"mem: {gpus.mem_mib}M")
    if gpus.nvlink:
        domains = ", ".join(f"[{', '.join(map(str, domain))}]" for domain in gpus.nvlink)
        parts.append(f"nvlink: [{domains}]")
    if gpus.numa:
        parts.append(f"numa: [{', '.join(map(str, gpus.numa))}]")
    return "{" + ", ".join(parts) + "}"
