"""The sections of a resource requirement: what stands between a keyword's brackets."""

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from xce.resreq import ast
from xce.resreq.expression import parse_expression, parse_number
from xce.resreq.lexer import Cursor

HOSTS_MAX: Final = 1_000_000
"""Most hosts that ``span[hosts=n]`` may allow."""
SECTIONS: Final = ("select", "order", "rusage", "span", "same", "cu", "affinity")
_LSF: Final = {
    "select": "Error in select section",
    "rusage": "Error in rusage section",
}
_PER: Final = ("task", "host", "job")
_DURATION_S: Final = {"h": 3600, "m": 60, "s": 1}
_PREFERENCES: Final = ("config", "maxavail", "minavail", "bestfit")
_UNITS: Final = ("thread", "core", "socket", "numa", "cpu", "mcm")
_LEVELS: Final = ("numa", "socket", "core", "thread")
_CU_FIELDS: Final = {
    "type": "type", "pref": "pref", "maxcus": "maxcus", "usablecuslots": "usablecuslots",
    "min_task_per_cu": "usablecuslots", "balance": "balance", "excl": "excl",
    "maxwait": "maxwait_s",
}  # fmt: skip
_GPU_SETTINGS: Final = (
    "gmodel", "gvendor", "glink", "nvlink", "aff", "block", "gpack", "mode", "mps", "j_exclusive",
    "mig", "gtile",
)  # fmt: skip
"""What ``rusage[]`` may say of GPUs in words; their numbers (``gmem``, ``mig``) are items."""
_MPS_WORDS: Final = ("shared", "nocvd")
_SAME_AS: Final = {"mcm": "numa", "cpu": "thread"}
_Value = TypeVar("_Value")


def parse_section(cursor: Cursor, keyword: str, simple: dict[str, object]) -> None:
    """Read a section, its keyword already taken, into the field of `ast.Simple` of that name.

    Raises:
        ResreqError: It cannot be read, or was there already.
    """
    before = cursor.lsf
    cursor.lsf = _LSF.get(keyword, before)
    cursor.expect_mark("[")
    match keyword:
        case "select":
            simple[keyword] = parse_expression(cursor)
        case "order":
            simple[keyword] = _parse_order(cursor)
        case "rusage":
            simple[keyword] = _parse_rusage(cursor)
        case "span":
            simple[keyword] = _parse_span(cursor)
        case "same":
            simple[keyword] = parse_same(cursor)
        case "cu":
            simple[keyword] = _parse_compute_units(cursor)
        case _:
            simple[keyword] = parse_affinity_wish(cursor)
    closing = {"select": '"]" or an operator', "rusage": '"]", ":", "," or "||"'}
    cursor.expect_mark("]", closing.get(keyword, '"]"'))
    cursor.lsf = before


def parse_same(cursor: Cursor) -> tuple[str, ...]:
    """Read ``name:name...``.

    Raises:
        ResreqError: It cannot be read.
    """
    names = [cursor.expect_word("a resource name")]
    while cursor.take_mark(":"):
        names.append(cursor.expect_word("a resource name"))
    return tuple(names)


def _parse_order(cursor: Cursor) -> tuple[ast.OrderKey, ...]:
    keys = [_parse_order_key(cursor)]
    while cursor.take_mark(":"):
        keys.append(_parse_order_key(cursor))
    return ast.with_leading_mark(keys)


def _parse_order_key(cursor: Cursor) -> ast.OrderKey:
    mark = "!" if cursor.take_mark("!") else ""
    mark += "-" if cursor.take_mark("-") else ""
    return ast.OrderKey(cursor.expect_word("a resource name"), mark)


def _parse_rusage(cursor: Cursor) -> ast.Rusage:
    groups = [_parse_rusage_group(cursor)]
    while cursor.take_mark("||"):
        groups.append(_parse_rusage_group(cursor))
    return ast.Rusage(tuple(groups))


def _parse_rusage_group(cursor: Cursor) -> tuple[ast.RusagePart, ...]:
    parts = [_parse_rusage_part(cursor)]
    while cursor.take_mark(","):
        parts.append(_parse_rusage_part(cursor))
    return tuple(parts)


def _parse_rusage_part(cursor: Cursor) -> ast.RusagePart:
    items: list[ast.RusageItem] = []
    durations_s: tuple[int, ...] = ()
    decays: tuple[int, ...] = ()
    threshold: ast.Number | None = None
    gpu: dict[str, str] = {}
    while True:
        at = cursor.at
        name = cursor.expect_word("a resource name")
        cursor.expect_mark("=", f'"=" after {name}')
        is_again = False
        if name == "duration":
            is_again = bool(durations_s)
            durations_s = _parse_each(cursor, _parse_duration_s)
        elif name == "decay":
            is_again = bool(decays)
            decays = _parse_each(cursor, _parse_decay)
        elif name == "threshold":
            is_again = threshold is not None
            threshold = parse_number(cursor)
        elif name in _GPU_SETTINGS and cursor.peek.kind != "number" and not cursor.is_mark("("):
            is_again = name in gpu
            gpu[name] = _parse_gpu_word(cursor) + (
                _parse_mps_words(cursor) if name == "mps" else ""
            )
        else:
            values = _parse_each(cursor, parse_number)
            items.append(ast.RusageItem(name, values, _parse_per(cursor)))
        if is_again:
            cursor.at = at
            raise cursor.error("another setting", why=f"{name} is given twice")
        if not cursor.take_mark(":"):
            break
    if not items:
        raise cursor.error("a resource name", why="no resource is named")
    return ast.RusagePart(tuple(items), durations_s, decays, threshold, tuple(gpu.items()))


def _parse_gpu_word(cursor: Cursor) -> str:
    if cursor.peek.kind == "string" and cursor.peek.text:
        return cursor.next().text
    return cursor.expect_word("a word")


def _parse_mps_words(cursor: Cursor) -> str:
    """Read what stands behind ``mps=yes``; a comma before anything else begins another part."""
    found = ""
    while cursor.is_mark(",") and cursor.peek_after(1).text in _MPS_WORDS:
        cursor.next()
        found += f",{cursor.next().text}"
    return found


def _parse_per(cursor: Cursor) -> str:
    return cursor.expect_choice(_PER) if cursor.take_mark("/") else ""


def _parse_each(cursor: Cursor, parse: Callable[[Cursor], _Value]) -> tuple[_Value, ...]:
    """Read one value, or ``(value value ...)``."""
    if not cursor.take_mark("("):
        return (parse(cursor),)
    values = [parse(cursor)]
    while not cursor.take_mark(")"):
        values.append(parse(cursor))
    return tuple(values)


def _parse_duration_s(cursor: Cursor) -> int:
    end = cursor.peek.end
    count = cursor.expect_count("a duration")
    unit = "m"
    if cursor.peek.kind == "word" and cursor.peek.start == end:
        unit = cursor.expect_choice(tuple(_DURATION_S))
    return count * _DURATION_S[unit]


def _parse_decay(cursor: Cursor) -> int:
    return cursor.expect_count("a number", least=0, most=1)


def _parse_span(cursor: Cursor) -> ast.Span:
    form = cursor.expect_choice(("hosts", "ptile", "block", "stripe", "gtile"))
    if form == "stripe" and not cursor.is_mark("="):
        return ast.Span(form, 0)
    cursor.expect_mark("=")
    if form == "hosts":
        if cursor.take_mark("-"):
            return ast.Span(form, -cursor.expect_count("1 after the minus", most=1))
        return ast.Span(form, cursor.expect_count("a number of hosts or -1", most=HOSTS_MAX))
    if form in ("ptile", "gtile") and cursor.peek[:2] == ("string", "!"):
        cursor.next()
        count = 0
    else:
        count = cursor.expect_count("a number of tasks")
    by_type = []
    while form == "ptile" and cursor.take_mark(","):
        if cursor.peek.kind not in ("word", "string") or not cursor.peek.text:
            raise cursor.error("a host type or model")
        name = cursor.next().text
        cursor.expect_mark(":")
        by_type.append((name, cursor.expect_count("a number of tasks")))
    return ast.Span(form, count, tuple(by_type))


def _parse_compute_units(cursor: Cursor) -> ast.ComputeUnits:
    settings: dict[str, object] = {}
    while True:
        at = cursor.at
        name = cursor.expect_choice(tuple(_CU_FIELDS))
        field = _CU_FIELDS[name]
        if field in settings:
            cursor.at = at
            raise cursor.error("another setting", why=f"{name} is given twice")
        if field in ("balance", "excl"):
            settings[field] = True
        else:
            cursor.expect_mark("=")
            settings[field] = _parse_compute_unit_value(cursor, field)
        if not cursor.take_mark(":"):
            break
    return msgspec.convert(settings, ast.ComputeUnits)


def _parse_compute_unit_value(cursor: Cursor, field: str) -> str | int:
    match field:
        case "type":
            return cursor.expect_word("a type of compute unit")
        case "pref":
            return cursor.expect_choice(_PREFERENCES)
        case "maxwait_s":
            return _parse_duration_s(cursor)
        case _:
            return cursor.expect_count("a number")


def parse_affinity_wish(cursor: Cursor) -> ast.Affinity:
    """Read what stands between the brackets of ``affinity[]``.

    Raises:
        ResreqError: It cannot be read.
    """
    unit = cursor.expect_choice(_UNITS)
    found: dict[str, object] = {"unit": _SAME_AS.get(unit, unit)}
    if cursor.take_mark("("):
        found["count"] = cursor.expect_count("a number of units")
        while cursor.take_mark(","):
            _parse_affinity_setting(cursor, ("same", "exclusive"), found)
        cursor.expect_mark(")")
    if cursor.take_mark("*"):
        found["repeat"] = cursor.expect_count("a number")
    while cursor.take_mark(":"):
        _parse_affinity_setting(cursor, ("cpubind", "membind", "distribute"), found)
    return msgspec.convert(found, ast.Affinity)


def _parse_affinity_setting(
    cursor: Cursor, names: tuple[str, ...], found: dict[str, object]
) -> None:
    at = cursor.at
    name = cursor.expect_choice(names)
    if name in found:
        cursor.at = at
        raise cursor.error("another setting", why=f"{name} is given twice")
    cursor.expect_mark("=")
    match name:
        case "same" | "cpubind":
            found[name] = _parse_level(cursor)
        case "exclusive":
            cursor.expect_mark("(")
            found[name] = _parse_level(cursor)
            if cursor.take_mark(","):
                found["scope"] = cursor.expect_choice(("injob", "intask", "alljobs"))
            cursor.expect_mark(")")
        case "membind":
            found[name] = cursor.expect_choice(("localonly", "localprefer"))
        case _:
            found[name] = cursor.expect_choice(("any", "balance", "pack"))
            if found[name] == "pack" and cursor.take_mark("("):
                found["distribute_level"] = _parse_level(cursor)
                cursor.expect_mark("=")
                found["distribute_count"] = cursor.expect_count("a number of units")
                cursor.expect_mark(")")


def _parse_level(cursor: Cursor) -> str:
    level = cursor.expect_choice((*_LEVELS, *_SAME_AS))
    return _SAME_AS.get(level, level)
