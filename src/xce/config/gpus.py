"""``gpus`` of a host entry: how many GPUs a host has, and how they are connected."""

import re
from typing import Final

from xce.config.document import Key, Place, Table, each_item, each_pair, read_mapping
from xce.config.values import read_count, read_flag, read_line, read_supply_mib
from xce.model.device import DEVICES_MAX, NO_LINK, Device
from xce.model.errors import TextError

_PROFILE: Final = re.compile(r"(?:[1-7]c\.)?[1-7]g\.(\d{1,4})gb(?:\+[a-z.]+)?")
_INDEX: Final = re.compile(r"\d{1,4}")
MIG_MAX: Final = 8
"""Most instances of MIG on one GPU."""


def read_gpus(place: Place) -> tuple[Device, ...]:
    """Return the GPUs of a host; what is wrong is reported, or raised.

    Raises:
        TextError: Lists do not fit the number of GPUs.
    """
    fields = read_mapping(place, _GPUS)
    count = fields.get("count", 0)
    links = [NO_LINK] * count
    for number, domain in enumerate(fields.get("nvlink", ())):
        for index in domain:
            if index >= count:
                raise TextError(f"nvlink names GPU {index}; there are {count}, counted from 0")
            if links[index] != NO_LINK:
                raise TextError(f"nvlink names GPU {index} twice")
            links[index] = number
    for name in ("numa", "uuids"):
        found = fields.get(name)
        if found is not None and len(found) != count:
            raise TextError(f"{name} has {len(found)} items for {count} GPUs")
    uuids = fields.get("uuids") or [""] * count
    if len({uuid for uuid in uuids if uuid}) < sum(map(bool, uuids)):
        raise TextError("uuids holds one twice")
    numas = fields.get("numa") or [-1] * count
    share = fields.get("enforced", False)
    whole = [
        Device(
            index, uuids[index], fields.get("model", ""), fields.get("mem", 0), links[index],
            numas[index], is_enforced=share,
        )
        for index in range(count)
    ]  # fmt: skip
    parts: list[Device] = []
    for index, profiles in sorted(fields.get("mig", {}).items()):
        if index >= count:
            raise TextError(f"mig names GPU {index}; there are {count}, counted from 0")
        for profile in profiles:
            match = _PROFILE.fullmatch(profile)
            assert match is not None
            parts.append(
                Device(
                    count + len(parts), "", whole[index].model, int(match[1]) * 1024, NO_LINK,
                    whole[index].numa, index, profile, is_enforced=True,
                )
            )  # fmt: skip
    if count + len(parts) > DEVICES_MAX:
        raise TextError(f"more than {DEVICES_MAX} devices on a host")
    return (*whole, *parts)


def _numbers(place: Place) -> list[int]:
    return [read_count(0, DEVICES_MAX)(item) for item in each_item(place, "numbers")]


def _domains(place: Place) -> list[list[int]]:
    return [_numbers(item) for item in each_item(place, "NVLink domains")]


def _uuids(place: Place) -> list[str]:
    return [read_line(128)(item) for item in each_item(place, "UUIDs")]


def _mig(place: Place) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for index, value in each_pair(place, "mig"):
        if not _INDEX.fullmatch(index):
            raise TextError(f"{index[:40]!r} is no index of a GPU")
        profiles = [read_line(40)(item) for item in each_item(value, "MIG profiles")]
        bad = [profile for profile in profiles if not _PROFILE.fullmatch(profile)]
        if bad:
            raise TextError(f"{bad[0]!r} is no MIG profile: expected one like 3g.40gb")
        if not 1 <= len(profiles) <= MIG_MAX:
            raise TextError(f"{len(profiles)} instances of MIG: expected 1 to {MIG_MAX}")
        found[int(index)] = profiles
    return found


_GPUS: Final = Table(
    noun="gpus",
    keys={
        "count": Key("count", read_count(0, DEVICES_MAX)),
        "model": Key("model", read_line(128)),
        "mem": Key("mem", read_supply_mib),
        "nvlink": Key("nvlink", _domains),
        "numa": Key("numa", _numbers),
        "uuids": Key("uuids", _uuids),
        "mig": Key("mig", _mig),
        "enforced": Key("enforced", read_flag),
    },
    required=("count",),
)
