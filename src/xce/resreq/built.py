"""What compiles but is not placed yet: one table, from which a row goes when placement has it."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from xce.model.config import ClusterConfig
from xce.model.request import Request
from xce.resreq import ast
from xce.resreq.affinity import find_gap
from xce.resreq.errors import NotBuiltError
from xce.resreq.expression import parts_of
from xce.resreq.merge import find_word
from xce.resreq.parser import parse_select
from xce.resreq.schema import MEASURED, Schema


class Row(NamedTuple):
    """One feature that is refused."""

    what: str
    """Its name for people."""
    word: str
    """What stands in the text where it is asked for."""
    is_asked: Callable[[Request], bool]
    """Whether a request, without the requests inside it, asks for it."""
    instead: str
    """What to ask for in its place."""


def _balances_parts(request: Request) -> bool:
    return any(part.request.cu and part.request.cu.balance for part in request.parts)


def _binds_twice(request: Request) -> bool:
    all_parts = [request, *(part.request for part in request.parts)]
    is_near = any(one.gpu is not None and one.gpu.is_near for one in all_parts)
    return is_near and any(one.affinity for one in all_parts)


def _tiles_parts(request: Request) -> bool:
    parts = [part.request.gpu for part in request.parts]
    return len(parts) > 1 and any(gpu is not None and gpu.tile for gpu in parts)


ROWS: Final = (
    Row(
        "gtile of GPUs in a request of several parts",
        "gtile",
        _tiles_parts,
        "ask for the GPUs of a part in one NVLink domain by glink=yes",
    ),
    Row(
        "aff=yes of GPUs beside affinity[]",
        "aff",
        _binds_twice,
        "aff=yes alone binds tasks near to their GPUs, affinity[] alone gives processors out",
    ),
    Row(
        "cu[] over all parts of a compound form",
        "cu",
        lambda r: bool(r.parts and r.cu),
        "say it of each part",
    ),
    Row("cu[balance] in parts", "balance", _balances_parts, "use maxcus or span[ptile=n]"),
)
_BY_COUNT: Final = "GPUs of a host are counted by ngpus_physical, and asked for by -gpu"
NAMES: Final = {
    "cu": "domains are asked for by cu[]",
    "ngpus_shared": _BY_COUNT,
    "ngpus_excl_t": _BY_COUNT,
    "ngpus_excl_p": _BY_COUNT,
    "gmem": "ask for memory of GPUs by -gpu gmem=, or in rusage[] beside gpu=",
    "mig": "ask for instances by -gpu mig=, or in rusage[] beside gpu=",
}
"""Resources that LSF has on every host and XCE has not yet, unless they are declared; and what to
say in their place."""
OFFERED: Final = frozenset(("swp", "tmp"))
"""What hosts give out where their configuration says how much."""
NAME_PREFIXES: Final = ("gpu_",)
_CHANGING: Final = frozenset((*MEASURED, "slots"))
"""Numbers that hosts have now and may not have in a moment."""
_STATIC: Final = "name what hosts are, not what they have left"


def refuse_not_built(
    request: Request, *, config: ClusterConfig, texts: Sequence[str] = ()
) -> NotBuiltError | None:
    """Return why a request cannot be placed by this release; None: it can.

    Args:
        request: What was compiled.
        config: The resources there are.
        texts: The requirement texts, to tell the column.
    """
    inner = [part.request for part in request.parts]
    inner += [alternative.request for alternative in request.alternatives]
    asked = next((row for row in ROWS if row.is_asked(request)), None)
    gap = asked or find_gap(request.affinity)
    if gap is not None:
        return _not_built(gap.what, gap.word, texts, gap.instead)
    schema = Schema(config)
    pool = _pool_of_hosts(request, config)
    if pool:
        what = f"{pool}, a pool, for each of several hosts (/host)"
        return _not_built(what, pool, texts, "say /job or /task, or span[hosts=1]", "rusage")
    for section, name in _names(request, schema):
        if _is_there(name, section, schema):
            continue
        if name in schema.units and section != "rusage":
            if section == "same":
                what = f"{name} in same[], since it is consumed,"
                return _not_built(what, name, texts, _STATIC, section)
        elif name in _CHANGING and section == "same":
            what = f"{name} in same[], since it changes,"
            return _not_built(what, name, texts, _STATIC, section)
        elif name in OFFERED:
            why = f"{name} in {section}[]: no host offers it, as {name} in hosts.yaml would say"
            text, column = find_word(texts, name, section)
            return NotBuiltError(why, text=text, column=column, word=name)
        elif name in NAMES or name.startswith(NAME_PREFIXES):
            instead = NAMES.get(name, _BY_COUNT)
            return _not_built(f"{name} in {section}[]", name, texts, instead, section)
    for one in inner:
        found = refuse_not_built(one, config=config, texts=texts)
        if found is not None:
            return found
    return None


def _pool_of_hosts(request: Request, config: ClusterConfig) -> str:
    """Return a pool of which each host of a job is to take something; empty: none could be more.

    How many hosts a job has is found out by the search, of which pools know nothing.
    """
    if request.one_host or 1 in (request.hosts_max, request.tasks_max):
        return ""
    pools = {pool.name for pool in config.pools}
    asked = [amount.resource for amount in request.amounts if amount.per == "host"]
    return next((name for name in asked if name in pools), "")


def _is_there(name: str, section: str, schema: Schema) -> bool:
    """Return whether a resource may be named in a section, as far as that is simple."""
    if section == "rusage" and name in schema.units:
        return True
    is_changing = name in _CHANGING and section in ("rusage", "same")
    return name in schema.kinds and not is_changing


def _names(request: Request, schema: Schema) -> list[tuple[str, str]]:
    """Return the resources that a request names, each with its section."""
    found = [("rusage", amount.resource) for amount in request.amounts]
    found += [("rusage", one.resource) for one in request.thresholds]
    found += [("same", name) for name in request.same]
    found += [("order", key.lstrip("-!")) for key in request.order.split(":") if key]
    rest: list[ast.Expression] = [parse_select(request.select)] if request.select else []
    while rest:
        node = rest.pop()
        if isinstance(node, ast.Name | ast.Defined):
            found.append(("select", node.name))
        elif isinstance(node, ast.Compare) and _is_of_string(node, schema):
            rest.append(node.left)  # a word on the right is a literal
        else:
            rest.extend(parts_of(node))
    return found


def _is_of_string(compare: ast.Compare, schema: Schema) -> bool:
    return isinstance(compare.left, ast.Name) and schema.is_string(compare.left.name)


def _not_built(
    what: str, word: str, texts: Sequence[str], instead: str, section: str = ""
) -> NotBuiltError:
    text, column = find_word(texts, word, section)
    message = f"{what} is not built yet: {instead}"
    return NotBuiltError(message, text=text, column=column, word=word)
