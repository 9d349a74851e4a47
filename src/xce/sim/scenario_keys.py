"""The keys of jobs, events and expectations in scenario files, and the readers of their values."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import yaml

from xce.config.document import Key, Place, Table, each_item, each_pair, scalar_text
from xce.config.names import USER_NAME
from xce.config.values import (
    AMOUNT_MAX,
    read_choice,
    read_count,
    read_host_pattern,
    read_line,
    read_load,
    read_seconds,
)
from xce.model.errors import TextError
from xce.model.ids import SECOND_US, Micros
from xce.model.plan import StartRule
from xce.model.processor import parse_list, render_list
from xce.sim.scenario import ACTIONS, HOST_STATES, JOB_STATES, rule_word

_CLOCK: Final = re.compile(r"(\d{1,6}):([0-5]\d):([0-5]\d(?:\.\d{1,6})?)")
_SECONDS: Final = re.compile(r"\d{1,12}(?:\.\d{1,6})?")
_ID: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_ELEMENT: Final = re.compile(rf"({_ID.pattern})\[(\d{{1,10}})\]")
_COMPARISON: Final = re.compile(r"(?:(>=|<=|==|!=|>|<)\s*)?(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)")
COMPARISONS: Final[dict[str, Callable[[float, float], bool]]] = {
    ">=": lambda a, b: a >= b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: abs(a - b) <= 1e-9 * max(1.0, abs(b)),
    "!=": lambda a, b: abs(a - b) > 1e-9 * max(1.0, abs(b)),
    ">": lambda a, b: a > b,
    "<": lambda a, b: a < b,
}


def _micros(text: str) -> Micros:
    whole, _, fraction = text.partition(".")
    return int(whole) * SECOND_US + int(fraction.ljust(6, "0") or 0)


def _iso_us(text: str) -> Micros | None:
    """Return an ISO 8601 instant, in UTC where it names no zone; None: it is none."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    span = found - datetime(1970, 1, 1, tzinfo=UTC)
    return (span.days * 86_400 + span.seconds) * SECOND_US + span.microseconds


def read_zero(place: Place) -> Micros:
    """Read the ``epoch``: when the scenario's 0 is."""
    text = scalar_text(place)
    at_us = _iso_us(text)
    if at_us is None or at_us <= 0:
        raise TextError(f"{text[:40]!r} is no instant: expected e.g. 2026-03-01T00:00:00Z")
    return at_us


def instant_reader(zero_us: Micros | None) -> Callable[[Place], Micros]:
    """Return the reader of instants: seconds, ``HH:MM:SS``, with an ``epoch`` also ISO 8601."""

    def read(place: Place) -> Micros:
        text = scalar_text(place).strip()
        if _SECONDS.fullmatch(text):
            return _micros(text)
        clock = _CLOCK.fullmatch(text)
        if clock is not None:
            hours, minutes, seconds = clock.groups()
            return (int(hours) * 3600 + int(minutes) * 60) * SECOND_US + _micros(seconds)
        at_us = _iso_us(text)
        if at_us is None:
            raise TextError(f"{text[:40]!r} is no time: expected seconds from 0, or HH:MM:SS")
        if zero_us is None:
            raise TextError(f"{text!r} is a date: give the key 'epoch', or seconds from 0")
        if at_us < zero_us:
            raise TextError(f"{text!r} lies before the epoch")
        return at_us - zero_us

    return read


def read_interval(place: Place) -> Micros:
    """Read the span between sessions."""
    span_us = read_seconds(place)
    if span_us <= 0:
        raise TextError("must be more than 0 s")
    return span_us


def _read_id(place: Place) -> str:
    text = scalar_text(place)
    if not _ID.fullmatch(text):
        raise TextError(f"{text[:60]!r} is no id of a job: expected {_ID.pattern}")
    return text


def _read_element(place: Place) -> dict[str, Any]:
    """Read ``id`` or ``id[index]``."""
    match = _ELEMENT.fullmatch(scalar_text(place))
    if match is not None:
        return {"job": match[1], "index": int(match[2])}
    return {"job": _read_id(place)}


def _read_user(place: Place) -> str:
    text = scalar_text(place)
    if not USER_NAME.fullmatch(text):
        raise TextError(f"{text[:60]!r} is no user name")
    return text


def _read_submit(place: Place) -> str:
    text = read_line(64 * 1024)(place)
    if text.split(None, 1)[:1] != ["bsub"]:
        raise TextError('expected a command line of bsub, e.g. "bsub -n 4 -W 10"')
    return text


def read_spec_text(place: Place) -> str:
    """Read a jobspec: a mapping, as a text of YAML; its own problems are told at submission."""
    if not isinstance(place.node, yaml.MappingNode):
        raise TextError("expected a jobspec: a mapping with version, roles and so on")
    return yaml.serialize(place.node)


def _read_command(place: Place) -> str:
    text = read_line(64 * 1024)(place)
    word = (text.split(None, 1) or [""])[0]
    if word not in ACTIONS:
        raise TextError(
            f"{word[:40]!r} is not built yet in scenarios; allowed: {', '.join(ACTIONS)}"
        )
    return text


def _read_runtime(place: Place) -> dict[str, Any]:
    """Read ``300s``, ``{unlimited: true}`` or ``{between: [10s, 60s]}``."""
    if not isinstance(place.node, yaml.MappingNode):
        span_us = read_seconds(place)
        return {"least_us": span_us, "most_us": span_us}
    found: dict[str, Any] = {}
    for key, value in each_pair(place, "unlimited or between"):
        if key == "unlimited":
            read_choice("true")(value)
            found = {"least_us": 0, "most_us": None}
        elif key == "between":
            spans = [read_seconds(item) for item in each_item(value, "two spans")]
            if len(spans) != 2 or spans[0] > spans[1]:
                raise TextError("between: expected two spans, the shorter one first")
            found = {"least_us": spans[0], "most_us": spans[1]}
        else:
            raise TextError(f"{key!r} is not known; allowed: unlimited, between")
    if not found:
        raise TextError("expected a span, {unlimited: true} or {between: [10s, 60s]}")
    return found


JOB: Final = Table(
    noun="a job",
    keys={
        "id": Key("id", _read_id),
        "user": Key("user", _read_user),
        "submit": Key("submit", _read_submit),
        "spec": Key("spec", read_spec_text),
        "runtime": Key("runtime", _read_runtime),
        "exit": Key("exit_code", read_count(0, 255)),
    },
    required=("id", "at"),
)
"""Beside these: ``at``."""


EVENT: Final = Table(
    noun="an event",
    keys={
        "host": Key("hosts", read_host_pattern),
        "state": Key("state", read_choice(*HOST_STATES)),
        "do": Key("command", _read_command),
        "as": Key("user", _read_user),
        "pool": Key("pool", read_line(128)),
        "total": Key("total", read_count(0, AMOUNT_MAX)),
        "load": Key("load", read_load),
    },
    required=("at",),
)
"""Beside these: ``at``."""


def expectation_table(read_at: Callable[[Place], Micros]) -> Table:
    """Return the keys of an expectation."""
    return Table(
        noun="an expectation",
        keys={
            "job": Key("element_of", _read_element),
            "state": Key("state", read_choice(*JOB_STATES)),
            "counts": Key("counts", _read_counts),
            "hosts": Key("hosts", _read_hosts),
            "gpus": Key("gpus", _read_gpus),
            "processors": Key("processors", _read_processors),
            "reason": Key("reason", read_line(1024)),
            "rule": Key("rule", read_choice(*map(rule_word, StartRule))),
            "start": Key("start_us", read_at),
            "end": Key("end_us", read_at),
            "wait": Key("wait_us", read_seconds),
            "exit": Key("exit_code", read_count(0, 255)),
            "attempt": Key("attempt", read_count(0, 10**6)),
            "summary": Key("summary", _read_summary),
        },
    )


def _read_counts(place: Place) -> dict[str, int]:
    found: dict[str, int] = {}
    for key, value in each_pair(place, "states with counts"):
        if key not in JOB_STATES:
            raise TextError(f"{key!r} is no state; allowed: {', '.join(JOB_STATES)}")
        found[key] = read_count(0, 10**9)(value)
    return found


def _read_processors(place: Place) -> dict[str, str]:
    return {
        name: render_list(parse_list(scalar_text(value)))
        for name, value in each_pair(place, "hosts with processors")
    }


def _read_gpus(place: Place) -> dict[str, tuple[str, ...]]:
    return {
        name: tuple(scalar_text(item) for item in each_item(value, "GPUs"))
        for name, value in each_pair(place, "hosts with GPUs")
    }


def _read_hosts(place: Place) -> dict[str, int] | tuple[str, ...]:
    if isinstance(place.node, yaml.SequenceNode):
        return tuple(scalar_text(item) for item in each_item(place, "host names"))
    read = read_count(1, 10**6)
    return {name: read(value) for name, value in each_pair(place, "hosts with slots")}


def _read_summary(place: Place) -> dict[str, str]:
    found: dict[str, str] = {}

    def read(inner: Place, path: str) -> None:
        if isinstance(inner.node, yaml.MappingNode):
            for key, value in each_pair(inner, "members of the summary"):
                read(value, f"{path}.{key}" if path else key)
            return
        text = scalar_text(inner)
        if not _COMPARISON.fullmatch(text.strip()):
            raise TextError(f'{text[:40]!r} is no comparison: expected e.g. ">= 0.8"')
        found[path] = text.strip()

    read(place, "")
    return found


def holds(comparison: str, value: float) -> bool:
    """Return whether a comparison, e.g. ``>= 0.8``, holds of a number."""
    match = _COMPARISON.fullmatch(comparison)
    assert match is not None
    return COMPARISONS[match[1] or "=="](value, float(match[2]))
