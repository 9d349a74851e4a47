"""``processors`` of a host entry: made up ones, of which jobs are told without being bound."""

from typing import Final

from xce.config.document import Key, Place, Table, read_mapping
from xce.config.values import read_count
from xce.model.errors import TextError
from xce.model.processor import PROCESSORS_MAX, Processor, made_up


def read_processors(place: Place) -> tuple[Processor, ...]:
    """Return the processors of a host; what is wrong is reported, or raised.

    Raises:
        TextError: They are too many, or cannot be divided into so many NUMA domains.
    """
    fields = read_mapping(place, _PROCESSORS)
    shape = {name: fields.get(name, 1) for name in _PROCESSORS.keys}
    cores = shape["sockets"] * shape["cores"]
    if cores * shape["threads"] > PROCESSORS_MAX:
        raise TextError(f"more than {PROCESSORS_MAX} processors on a host")
    if cores % shape["numa"]:
        raise TextError(f"{cores} cores cannot be divided into {shape['numa']} NUMA domains")
    return made_up(shape)


_PROCESSORS: Final = Table(
    noun="processors",
    keys={
        "sockets": Key("sockets", read_count(1, PROCESSORS_MAX)),
        "cores": Key("cores", read_count(0, PROCESSORS_MAX)),
        "threads": Key("threads", read_count(1, PROCESSORS_MAX)),
        "numa": Key("numa", read_count(1, PROCESSORS_MAX)),
    },
    required=("cores",),
)
