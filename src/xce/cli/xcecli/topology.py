"""``xcecli topology``: in which domains hosts lie, as a tree, or as a map of what is free."""

import argparse
from typing import Any, Final

from xce.cli.xcecli.listing import moment
from xce.cli.xcecli.render import paint, render_json, render_yaml
from xce.cli.xcecli.session import OK, Session

LEVELS: Final = ("switch", "block", "rack", "zone")
"""Where the cluster declares none."""
Row = dict[str, Any]


def run_topology(session: Session, options: argparse.Namespace) -> int:
    """Show the topology."""
    at = moment(options.at)
    hosts: list[Row] = session.get("/hosts", at=at)["hosts"]
    levels = tuple(session.get("/cluster").get("levels") or LEVELS)
    # Levels at which no host lies in a domain say nothing.
    used = [level for level in levels if any(host["labels"].get(level) for host in hosts)]
    tree = build_tree(hosts, used[::-1])
    if options.output:
        render = render_json if options.output == "json" else render_yaml
        session.say(render({"levels": used, "domains": tree}))
    elif options.map:
        for line in map_lines(tree, colour=session.has_colour):
            session.say(line)
    else:
        for line in tree_lines(tree):
            session.say(line)
    return OK


def build_tree(hosts: list[Row], levels: list[str]) -> list[Row]:
    """Return domains with what is in them, the widest level first; hosts in none come last."""
    if not levels:
        return [_leaf(host) for host in hosts]
    level, rest = levels[0], levels[1:]
    by_label: dict[str, list[Row]] = {}
    for host in hosts:
        by_label.setdefault(host["labels"].get(level, ""), []).append(host)
    found: list[Row] = []
    for label in sorted(by_label, key=lambda label: (not label, label)):
        inside = build_tree(by_label[label], rest)
        if label:
            found.append({"level": level, "name": label, **_sums(inside), "inside": inside})
        else:
            found += inside
    return found


def _leaf(host: Row) -> Row:
    gpus = [gpu for gpu in host.get("gpus") or () if gpu["state"] in {"ok", "closed"}]
    return {
        "level": "host",
        "name": host["name"],
        "status": host["status"],
        "hosts": 1,
        "slots": host["slots_max"],
        "slots_used": host["njobs"],
        "gpus": len(gpus),
        "gpus_used": sum(gpu["used"] for gpu in gpus),
        "devices": [
            {name: gpu[name] for name in ("index", "used", "state", "nvlink")} for gpu in gpus
        ],
    }


def _sums(inside: list[Row]) -> Row:
    names = ("hosts", "slots", "slots_used", "gpus", "gpus_used")
    return {name: sum(item[name] for item in inside) for name in names}


def _amounts(item: Row) -> str:
    texts = [f"{item['slots_used']}/{item['slots']} slots"]
    if item["gpus"]:
        texts.append(f"{item['gpus_used']:g}/{item['gpus']} GPUs")
    if item["level"] != "host":
        texts.insert(0, f"{item['hosts']} host{'' if item['hosts'] == 1 else 's'}")
    elif item["status"] != "ok":
        texts.append(item["status"])
    return ", ".join(texts)


def tree_lines(tree: list[Row], before: str = "") -> list[str]:
    """Return the tree, a line for each domain and host."""
    lines = []
    for place, item in enumerate(tree):
        is_last = place == len(tree) - 1
        branch = "" if not before and len(tree) == 1 else "`-- " if is_last else "|-- "
        lines.append(f"{before}{branch}{item['level']} {item['name']} ({_amounts(item)})")
        deeper = before + ("" if not branch else "    " if is_last else "|   ")
        lines += tree_lines(item.get("inside", []), deeper or "    ")
    return lines


def map_lines(tree: list[Row], *, colour: bool = False) -> list[str]:
    """Return a line for each of the narrowest domains: a cell for each of its hosts.

    A host with GPUs has a sign for each, NVLink domain by NVLink domain; others one for a tenth of
    their slots.
    """
    rows: list[tuple[str, list[Row]]] = []
    _narrowest(tree, [], rows)
    width = max((len(name) for name, _ in rows), default=0)
    lines = []
    for name, hosts in rows:
        cells = " ".join(f"{host['name']}[{_signs(host)}]" for host in hosts)
        lines.append(f"{name:<{width}}  {cells}")
    lines.append("")
    lines.append("GPUs: # used, + in part, . free, x closed; slots: = used, - free; ! not ok")
    return [paint(line, "PEND") if colour and "!" in line else line for line in lines]


def _narrowest(tree: list[Row], above: list[str], rows: list[tuple[str, list[Row]]]) -> None:
    hosts = [item for item in tree if item["level"] == "host"]
    if hosts:
        rows.append(("/".join(above) or "-", hosts))
    for item in tree:
        if item["level"] != "host":
            _narrowest(item["inside"], [*above, item["name"]], rows)


def _signs(host: Row) -> str:
    mark = "" if host["status"] == "ok" or host["status"] == "closed_Full" else "!"
    if not host["devices"]:
        slots = host["slots"] or 1
        used = -(-10 * host["slots_used"] // slots)
        return f"{mark}{'=' * used}{'-' * (10 - used)}"
    domains: dict[object, str] = {}
    for gpu in host["devices"]:
        sign = "x" if gpu["state"] == "closed" else "."
        if gpu["used"]:
            sign = "#" if gpu["used"] >= 1 else "+"
        domains[gpu["nvlink"]] = domains.get(gpu["nvlink"], "") + sign
    return mark + "|".join(domains.values())
