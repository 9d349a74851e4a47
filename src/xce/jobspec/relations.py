"""One relation of a jobspec: its keys, and what each kind may have beside them."""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

import yaml

from xce.config.document import Place, each_item, each_pair, scalar_text
from xce.config.report import render_allowed
from xce.config.values import read_choice, read_count, read_flag, read_limit_mib, read_span
from xce.model.errors import TextError
from xce.model.ids import SECOND_US
from xce.model.relation import GROUP_NAME, ROLE_NAME, Relation, RelationKind

Reader = Callable[[Place], str]
WEIGHT_MAX: Final = 100
_JOB: Final = r"[0-9]{1,18}|[A-Za-z_][^\s\[\]\"'*]{0,127}"
_OUTSIDE: Final = {
    "job": re.compile(_JOB),
    "group": re.compile(GROUP_NAME),
    "data": re.compile(r"\S{1,255}"),
    "claim": re.compile(r"\S{1,255}"),
}
_BANDWIDTH: Final = re.compile(r"(\d{1,9})\s*([kKMGT]?)(?:bit|bps)?")
_SCALE: Final = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


class Kind(NamedTuple):
    """What a relation of one kind may have."""

    is_directed: bool
    """It needs ``from`` and ``to``."""
    has_scope: bool
    params: dict[str, Reader]


def _count(least: int, most: int) -> Reader:
    read = read_count(least, most)
    return lambda place: str(read(place))


def _choice(*allowed: str) -> Reader:
    return read_choice(*allowed)


def _flag(place: Place) -> str:
    return "true" if read_flag(place) else "false"


def _span(place: Place) -> str:
    """Return whole seconds, rounded up."""
    return f"{-(-read_span(place) // SECOND_US)}s"


def span_us(text: str) -> int:
    """Return the span of a parameter."""
    return int(text.removesuffix("s") or 0) * SECOND_US


def _volume(place: Place) -> str:
    return f"{read_limit_mib(place)}M"


def _bandwidth(place: Place) -> str:
    text = scalar_text(place).strip()
    match = _BANDWIDTH.fullmatch(text)
    if match is None or not int(match[1]):
        raise TextError(f"{text[:40]!r} is no bandwidth: expected bits a second, like 200G")
    return f"{match[1]}{match[2]}"


def bandwidth_mbit(text: str) -> int:
    """Return megabits a second, rounded up."""
    match = _BANDWIDTH.fullmatch(text)
    assert match is not None, "a parameter was checked when it was read"
    return -(-int(match[1]) * _SCALE[match[2]] // 10**6)


_WEIGHT: Final[dict[str, Reader]] = {"weight": _count(1, WEIGHT_MAX)}
_RELAX: Final[dict[str, Reader]] = {**_WEIGHT, "relax_after": _span}
KINDS: Final[dict[RelationKind, Kind]] = {
    RelationKind.COLOCATE: Kind(False, True, _RELAX),
    RelationKind.SPREAD: Kind(False, True, {**_RELAX, "max_per_domain": _count(1, 10**7)}),
    RelationKind.EXCHANGE: Kind(
        True,
        True,
        {
            **_RELAX,
            "channel": _choice("shm", "localdisk", "sharedfs", "network"),
            "rdma": _flag,
            "bandwidth": _bandwidth,
            "volume": _volume,
        },
    ),
    RelationKind.ISOLATE: Kind(False, True, {}),
    RelationKind.SIDECAR_OF: Kind(
        True,
        False,
        {"restart": _choice("always", "on-failure", "never"), "restarts_max": _count(0, 10**6)},
    ),
    RelationKind.INIT_OF: Kind(True, False, {}),
    RelationKind.READY_AFTER: Kind(True, False, {"timeout": _span}),
    RelationKind.AFTER: Kind(True, False, {"outcome": _choice("done", "ended")}),
    RelationKind.WITH: Kind(False, False, {}),
    RelationKind.FATE: Kind(
        False,
        False,
        {
            "policy": _choice("fail-together", "restart-member", "tolerate"),
            "restarts_max": _count(0, 10**6),
            "back_off": _span,
        },
    ),
}
"""Kinds that this release reads; the others are refused by name."""
_KEYS: Final = ("kind", "from", "to", "roles", "scope", "strength", "params")


def read_relation(place: Place) -> Relation | None:
    """Read a relation; what is wrong is reported."""
    pairs = dict(each_pair(place, "the keys of a relation"))
    word = _text(pairs.get("kind"))
    if word is None:
        place.problem("a relation needs the key 'kind'")
        return None
    if word not in set(RelationKind):
        place.problem(f"{word[:60]!r} is no kind of relation; {render_allowed(word, KINDS)}")
        return None
    if RelationKind(word) not in KINDS:
        place.problem(f"relations of kind {word!r} are not built yet in version 1 of jobspecs")
        return None
    found, kind = KINDS[RelationKind(word)], RelationKind(word)
    params = _params(place, pairs, kind, found)
    ends: dict[str, tuple[str, ...]] = {}
    for key in ("from", "to", "roles"):
        if key in pairs:
            ends[key] = _subjects(pairs[key])
    strength = _text(pairs.get("strength"))
    if strength not in (None, "required", "preferred"):
        pairs["strength"].problem(f"{strength!r} is not known; allowed: preferred, required")
    if "scope" in pairs and not found.has_scope:
        pairs["scope"].problem(f"a relation of kind {word!r} has no scope")
    if "strength" in pairs and not found.has_scope:
        pairs["strength"].problem(f"a relation of kind {word!r} has no strength")
    _check_ends(place, ends, kind, found)
    channel = params.get("channel", "network")
    default = kind is not RelationKind.EXCHANGE or channel in ("shm", "localdisk")
    return Relation(
        kind=kind,
        source=ends.get("from", ()),
        target=ends.get("to", ()),
        roles=ends.get("roles", ()),
        scope=_text(pairs.get("scope")) or "",
        required=default if strength is None else strength == "required",
        params=tuple(sorted(params.items())),
    )


def _text(place: Place | None) -> str | None:
    if place is None:
        return None
    try:
        return scalar_text(place)
    except TextError as error:
        place.problem(error.message)
        return None


def _params(
    place: Place, pairs: dict[str, Place], kind: RelationKind, found: Kind
) -> dict[str, str]:
    given = {key: value for key, value in pairs.items() if key not in _KEYS}
    if "params" in pairs:
        for key, value in each_pair(pairs["params"], "parameters"):
            if key in given:
                value.problem("stands twice: beside the other keys and under params")
            given[key] = value
    params: dict[str, str] = {}
    for key, value in given.items():
        if key not in found.params:
            allowed = [*_KEYS, *found.params]
            value.problem(
                f"a relation of kind {kind.value!r} has no {key!r}; {render_allowed(key, allowed)}"
            )
            continue
        try:
            params[key] = found.params[key](value)
        except TextError as error:
            value.problem(error.message)
    return params


def _subjects(place: Place) -> tuple[str, ...]:
    items = (
        list(each_item(place, "roles")) if isinstance(place.node, yaml.SequenceNode) else [place]
    )
    found = []
    for item in items:
        text = _text(item)
        if text is None:
            continue
        kind, colon, name = text.partition(":")
        if not colon or kind == "role":
            name = name if colon else text
            if re.fullmatch(ROLE_NAME, name):
                found.append(name)
                continue
            item.problem(f"{text[:80]!r} is no name of a role: expected {ROLE_NAME}")
        elif kind in ("data", "claim"):
            item.problem(f"{kind}: as a subject of relations is not built yet in this release")
        elif kind not in _OUTSIDE:
            item.problem(f"{kind!r} is no kind of subject; allowed: group, job, role")
        elif not _OUTSIDE[kind].fullmatch(name):
            item.problem(f"{name[:80]!r} is no name of a {kind}")
        else:
            found.append(text)
    return tuple(dict.fromkeys(found))


def is_outside(subject: str) -> bool:
    """Return whether a subject is no role of the job itself."""
    return ":" in subject


def _check_ends(
    place: Place, ends: dict[str, tuple[str, ...]], kind: RelationKind, found: Kind
) -> None:
    """Report ends that are missing or stand where the kind has none."""
    word = kind.value
    has_both = bool(ends.get("from")) and bool(ends.get("to"))
    if found.is_directed:
        if not has_both or "roles" in ends:
            place.problem(f"a relation of kind {word!r} needs from and to")
        twice = set(ends.get("from", ())) & set(ends.get("to", ()))
        for name in sorted(twice):
            place.problem(f"{word}: {name!r} stands on both sides")
    elif not ends.get("roles") and not has_both:
        place.problem(f"a relation of kind {word!r} needs roles, or from and to")
    outside = [name for names in ends.values() for name in names if is_outside(name)]
    if outside and kind not in (RelationKind.COLOCATE, RelationKind.SPREAD):
        hint = "; 'dependency' waits for other jobs" if kind is RelationKind.AFTER else ""
        place.problem(f"a relation of kind {word!r} is between roles, not with {outside[0]}{hint}")
    if len(set(outside)) > 1:
        place.problem(f"{word}: one group or job at a time, not {' and '.join(sorted(outside))}")
    if outside and all(is_outside(name) for names in ends.values() for name in names):
        place.problem(f"{word}: names no role of this job")
