"""Readers of a jobspec's values: texts, spans, sizes, and what says how a job runs."""

import re
from collections.abc import Callable
from typing import Any, Final

import yaml

from xce.config.document import Key, Place, Table, each_item, read_mapping, scalar_text
from xce.config.values import (
    read_choice,
    read_count,
    read_flag,
    read_limit_mib,
    read_span,
    read_words,
)
from xce.model.device import DEVICES_MAX
from xce.model.errors import TextError
from xce.model.ids import SECOND_US
from xce.model.mail import NOTICE_WORDS
from xce.model.transfers import OPERATORS, TRANSFERS_MAX

TEXT_MAX: Final = 64 * 1024
AT_S_MAX: Final = 253_402_300_799
CODES_MAX: Final = 256
COUNT_MAX: Final = 1_000_000_000
KIB_MAX: Final = 1 << 50
RESREQ_COUNT_MAX: Final = 64
_INSTANT: Final = re.compile(r"\d{1,12}(\.\d{1,6})?")
_SIZE: Final = re.compile(r"(\d{1,12}(?:\.\d{1,12})?)\s*([KMGTkmgt])(?:i?[Bb])?")
_KIB: Final = re.compile(r"(\d{1,18})\s*([KMGTkmgt])(?:i?[Bb])?")


def read_text(place: Place) -> str:
    """Read a text of several lines."""
    return read_line(TEXT_MAX)(place)


def read_texts(place: Place) -> list[str]:
    """Read a list of texts."""
    return [read_text(item) for item in each_item(place, "texts")]


def read_seconds(place: Place) -> float:
    """Read a span with its unit, as seconds."""
    span_us = read_span(place)
    whole, rest = divmod(span_us, SECOND_US)
    return span_us / SECOND_US if rest else whole


def read_line(most: int) -> Callable[[Place], str]:
    """Return the reader of a text of so many characters; what it may hold is judged as of REST."""

    def read(place: Place) -> str:
        text = scalar_text(place)
        if len(text) > most:
            raise TextError(f"has {len(text)} characters: at most {most} are allowed")
        return text

    return read


def read_kib(place: Place) -> int:
    """Read a size with its unit in KiB; what is no whole number of it is rounded up to MiB."""
    found = _KIB.fullmatch(scalar_text(place).strip())
    if found is None:
        return read_limit_mib(place) * 1024
    kib = int(found[1]) << 10 * "KMGT".index(found[2].upper())
    if kib > KIB_MAX:
        raise TextError(f"is more than {KIB_MAX} KiB")
    return kib


def read_instant(place: Place) -> float:
    """Read an instant in seconds since 1970."""
    text = scalar_text(place).strip()
    if not _INSTANT.fullmatch(text) or float(text) > AT_S_MAX:
        raise TextError(f"{text[:60]!r} is no instant: expected seconds since 1970")
    return float(text) if "." in text else int(text)


def _read_codes(place: Place) -> list[int]:
    read = read_count(1, 255)
    found = [read(item) for item in each_item(place, "exit statuses")]
    if len(found) > CODES_MAX:
        raise TextError(f"has {len(found)} exit statuses: at most {CODES_MAX} are allowed")
    return found


def _read_notices(place: Place) -> list[str]:
    read = read_choice(*NOTICE_WORDS)
    return [str(read(item)) for item in each_item(place, "what mail is wanted about")]


def _read_transfers(place: Place) -> list[list[str]]:
    """Read transfers, each as local path, operator, remote path and the place of the local one."""
    found = []
    for item in each_item(place, "transfers"):
        words = list(map(read_line(8192), each_item(item, "four texts")))
        if len(words) != 4 or words[1] not in OPERATORS or "" in words:
            item.problem(
                "expected [local, operator, remote, place]; operators are " + " ".join(OPERATORS)
            )
        found.append(words)
    if len(found) > TRANSFERS_MAX:
        raise TextError(f"has {len(found)} transfers: at most {TRANSFERS_MAX} are allowed")
    return found


def _read_checkpoints(place: Place) -> dict[str, Any]:
    return read_mapping(place, _CHECKPOINTS)


def read_requirements(place: Place) -> tuple[str, ...]:
    """Read one requirement, or a list of them."""
    if not isinstance(place.node, yaml.SequenceNode):
        return (read_text(place),)
    found = tuple(read_texts(place))
    if len(found) > RESREQ_COUNT_MAX:
        raise TextError(f"has {len(found)} texts: at most {RESREQ_COUNT_MAX} are allowed")
    return found


def read_gpu(place: Place) -> dict[str, Any]:
    """Read what ``-gpu`` says, item by item."""
    return read_mapping(place, _GPU)


def _read_names(place: Place) -> list[str]:
    return [word.strip() for word in read_words(place).split(",")]


def _read_mib(place: Place) -> float:
    text = scalar_text(place).strip()
    found = _SIZE.fullmatch(text)
    if found is None:
        raise TextError(f"{text[:60]!r} is no size: write e.g. 512M or 80G")
    return float(found[1]) * (1 << 10 * "KMGT".index(found[2].upper())) / 1024


def _read_tile(place: Place) -> int | str:
    text = scalar_text(place).strip()
    return "!" if text == "!" else read_count(1, DEVICES_MAX)(place)


def _read_limits(place: Place) -> dict[str, Any]:
    return read_mapping(place, _LIMITS)


_CHECKPOINTS: Final = Table(
    noun="checkpoints",
    keys={
        "directory": Key("directory", read_line(4096)),
        "method": Key("method", read_line(128)),
        "period": Key("period_s", read_seconds),
        "first": Key("first_s", read_seconds),
    },
    required=("directory",),
)
_LIMITS: Final = Table(
    noun="the limits",
    keys={
        "cpu": Key("cpu_limit_s", read_seconds),
        "swap": Key("swap_limit_kib", read_kib),
        "processes": Key("process_limit", read_count(0, COUNT_MAX)),
        "threads": Key("thread_limit", read_count(0, COUNT_MAX)),
        "stack": Key("stack_limit_kib", read_kib),
        "data": Key("data_limit_kib", read_kib),
        "file": Key("file_limit_kib", read_kib),
        "core": Key("core_limit_kib", read_kib),
    },
)
_GPU: Final = Table(
    noun="gpu",
    keys={
        "num": Key("num", read_count(1, DEVICES_MAX)),
        "per": Key("num_per", read_choice("host", "task")),
        "mode": Key("mode", read_choice("shared", "exclusive_process")),
        "j_exclusive": Key("j_exclusive", read_flag),
        "mps": Key("mps", read_flag),
        "mps_options": Key("mps_options", _read_names),
        "gmodel": Key("gmodel", read_line(128)),
        "gmem": Key("gmem", _read_mib),
        "glink": Key("glink", read_flag),
        "mig": Key("mig", read_line(128)),
        "gtile": Key("gtile", _read_tile),
        "aff": Key("aff", read_flag),
        "block": Key("block", read_flag),
        "gvendor": Key("gvendor", read_choice("nvidia", "amd")),
    },
)
LIMIT_KEYS: Final = {
    "cpu_us": "cpu",
    "swap_kib": "swap",
    "processes": "processes",
    "threads": "threads",
    "stack_kib": "stack",
    "data_kib": "data",
    "file_kib": "file",
    "core_kib": "core",
}
"""Member of `xce.model.process_limits.ProcessLimits` -> key."""
MANNER: Final = {
    "app": Key("app", read_line(1024)),
    "group": Key("group", read_line(TEXT_MAX)),
    "user_group": Key("user_group", read_line(1024)),
    "description": Key("description", read_text),
    "output_dir": Key("output_dir", read_line(4096)),
    "login_shell": Key("login_shell", read_line(4096)),
    "pre_exec": Key("pre_exec", read_text),
    "post_exec": Key("post_exec", read_text),
    "requeue": Key("requeue_codes", _read_codes),
    "requeue_elsewhere": Key("requeue_elsewhere", _read_codes),
    "ends_as_orphan": Key("ends_as_orphan", read_flag),
    "warning": Key("warning_s", read_seconds),
    "warning_signal": Key("warning_signal", read_count(1, 64)),
    "warning_command": Key("warning_command", read_text),
    "notices": Key("notices", _read_notices),
    "mail_to": Key("mail_to", read_line(TEXT_MAX)),
    "limits": Key("limits", _read_limits),
    "transfers": Key("transfers", _read_transfers),
    "checkpoints": Key("checkpoints", _read_checkpoints),
}
"""Keys about how a job runs and what is said of it, each for the member of a submission."""
