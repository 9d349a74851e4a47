"""``bugroup``: list the groups of users that have shares in queues."""

from __future__ import annotations

from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.options import FLAG, Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    Group = dict[str, Any]

USAGE = """\
Usage: bugroup [-l] [-r] [-w] [group_name ...]
  -l              with the shares, and in which queue
  -r              members of groups inside instead of their names
  -w              nothing cut (it never is)
"""
OPTIONS = Options(
    {"-l": FLAG, "-r": FLAG, "-w": FLAG},
    {"-cname": "there is one cluster"},
    bundled=True,
)


def flatten(group: Group, groups: dict[str, Group]) -> list[str]:
    """Return the members of a group and of the groups inside."""
    names: list[str] = []
    for member in group["members"]:
        inside = groups.get(member[:-1]) if member.endswith("/") else None
        names += [member] if inside is None else flatten(inside, groups)
    return list(dict.fromkeys(names))


def render_groups(
    found: list[Group], *, heading: str, is_long: bool, is_flat: bool, every: list[Group]
) -> list[str]:
    """Return the table, or the long form."""
    lines = [] if is_long else [f"{'GROUP_NAME':<12} {heading:<21} GROUP_ADMIN\n"]
    for group in found:
        beside = {g["name"]: g for g in every if g.get("queue") == group.get("queue")}
        members = flatten(group, beside) if is_flat else group["members"]
        text = " ".join(members)
        if not is_long:
            lines.append(f"{group['name']:<12} {text:<21} ( - )\n")
            continue
        lines += [f"GROUP_NAME:  {group['name']}\n", f"{heading}:       {text}\n"]
        lines.append("GROUP_ADMIN: ( - )\n")
        if group.get("shares"):
            shares = " ".join([f"[{name}, {size}]" for name, size in group["shares"]])
            lines += [f"SHARES:      {shares}\n", f"QUEUE:       {group['queue']}\n"]
        if heading == "HOSTS":
            lines.append(f"TYPE:        {group['kind']}\n")
        lines.append("\n")
    return lines


def list_groups(context: Context, found: list[Group], heading: str, none: str) -> int:
    """Print the groups that were named, or all."""
    parsed = context.parsed
    names = {group["name"] for group in found}
    missing = [name for name in parsed.rest if name.rstrip("/") not in names]
    wanted = [name.rstrip("/") for name in parsed.rest]
    chosen = [group for group in found if not wanted or group["name"] in wanted]
    if chosen:
        context.out_block(
            render_groups(
                chosen,
                heading=heading,
                is_long=parsed.has("-l"),
                is_flat=parsed.has("-r"),
                every=found,
            )
        )
    for name in missing:
        context.err(f"{name}: No such user/host group")
    if not chosen and not missing:
        context.err(none)
        return FAILED
    return FAILED if missing else 0


def execute(context: Context) -> int:
    """List the groups."""
    found = [g for g in context.api.call("GET", "/groups")["groups"] if g["kind"] == "users"]
    none = "No user group is defined: groups stand in the fairshare of queues.yaml"
    return list_groups(context, found, "USERS", none)


def main() -> NoReturn:
    """Run ``bugroup``."""
    run_main(OPTIONS, USAGE, execute)
