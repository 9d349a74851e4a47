"""GPUs of a requirement: settings of ``rusage[]`` and of ``-gpu`` to a `GpuWish`, and back."""

from collections.abc import Mapping
from typing import Final

from xce.model.device import DEVICES_MAX, WHOLE, GpuWish, vendor_of
from xce.resreq import ast
from xce.resreq.errors import NotBuiltError, ResreqError
from xce.resreq.settle import scaled_milli

COUNTS: Final = ("gpu", "ngpus", "ngpus_physical", "ngpus_excl_p")
"""Names in ``rusage[]`` that ask for whole GPUs."""
_NUMBERS: Final = ("gmem", "mig", "gtile")
ITEMS: Final = (*COUNTS, *_NUMBERS)
"""Names in ``rusage[]`` whose numbers are about GPUs."""
_RUSAGE: Final = "Error in rusage section"
HIDDEN: Final = "nocvd"
"""Behind ``mps=yes``: the job is not told its GPUs in ``CUDA_VISIBLE_DEVICES``."""
SHARED: Final = "shared"
"""Behind ``mps=yes``: jobs of a user with parts of the same GPUs have one daemon together."""
_MPS_WAYS: Final = ("per_socket", "per_gpu")
"""Of ``mps``: which GPUs of a job have one daemon together."""
ALL_SOCKETS: Final = -1
"""``GpuWish.tile``: over all sockets evenly."""


def compile_parts(group: tuple[ast.RusagePart, ...]) -> GpuWish | None:
    """Return the GPUs that settled parts of ``rusage[]`` ask for; None: none.

    Raises:
        ResreqError: It does not fit together.
        NotBuiltError: It asks for what no `GpuWish` can say yet.
    """
    asked = [part for part in group if _is_about_gpus(part)]
    if not asked:
        return None
    counts = [(item, part) for part in asked for item in part.items if item.name in COUNTS]
    if len(counts) != 1:
        word = counts[1][0].name if counts else asked[0].gpu[0][0] if asked[0].gpu else "gmem"
        why = "are asked for twice" if counts else "are not asked for: say how many, as in gpu=1"
        raise ResreqError(f"GPUs {why}", word=word, lsf=_RUSAGE)
    ((item, part),) = counts
    if part.durations_s or part.decays or part.threshold is not None:
        raise ResreqError(
            f"{item.name} is held to the end: it takes no duration, decay or threshold",
            word=item.name,
            lsf=_RUSAGE,
        )
    settings = {name: value for part in asked for name, value in part.gpu}
    numbers = {each.name: each for part in asked for each in part.items if each.name in _NUMBERS}
    mem = numbers.get("gmem")
    count, milli = _count(item)
    if not count:
        return None
    wish = wish_of(settings)
    if wish.mps and milli < WHOLE and SHARED not in wish.mps.split(","):
        raise ResreqError(
            "mps=yes is about whole GPUs; jobs with parts of GPUs share a daemon: mps=yes,shared",
            word="mps",
            lsf=_RUSAGE,
        )
    found = GpuWish(
        count,
        milli,
        item.per or "task",
        wish.model,
        0 if mem is None else -(-_milli(mem) // 1000),
        wish.is_linked,
        "" if "mig" not in numbers else str(_milli(numbers["mig"]) // 1000),
        wish.is_exclusive or item.name == "ngpus_excl_p",
        item.name != "gpu",
        wish.vendor,
        wish.is_blocked,
        wish.is_near,
        wish.mps,
        _milli(numbers["gtile"]) // 1000 if "gtile" in numbers else wish.tile,
    )
    _check_tile(found)
    return found


def _check_tile(wish: GpuWish) -> None:
    """Check that GPUs of each socket can be counted.

    Raises:
        ResreqError: They are parts of GPUs.
        NotBuiltError: They shall be linked, too.
    """
    if wish.tile and not wish.is_whole:
        raise ResreqError(
            "gtile is about whole GPUs of each socket, and parts of one are asked for",
            word="gtile",
            lsf=_RUSAGE,
        )
    if wish.tile and wish.is_linked:
        raise NotBuiltError(
            "gtile together with glink=yes is not built yet: glink=yes alone has the GPUs in one"
            " NVLink domain, gtile=n alone n of each socket",
            word="gtile",
        )


def without_gpus(part: ast.RusagePart) -> tuple[ast.RusageItem, ...]:
    """Return the items of a part that are not about GPUs."""
    return tuple(item for item in part.items if item.name not in ITEMS)


def _is_about_gpus(part: ast.RusagePart) -> bool:
    return bool(part.gpu) or any(item.name in ITEMS for item in part.items)


def _count(item: ast.RusageItem) -> tuple[int, int]:
    """Return how many GPUs, and how much of each."""
    milli = _milli(item)
    if milli % WHOLE and milli > WHOLE:
        raise ResreqError(
            f"{item.name} is a whole number, or a part of one GPU", word=item.name, lsf=_RUSAGE
        )
    if milli > DEVICES_MAX * WHOLE:
        raise ResreqError(
            f"{item.name}: no host has more than {DEVICES_MAX} GPUs", word=item.name, lsf=_RUSAGE
        )
    return (1, milli) if 0 < milli < WHOLE else (milli // WHOLE, WHOLE)


def _milli(item: ast.RusageItem) -> int:
    if len(item.values) > 1:
        raise ResreqError(f"{item.name} takes one value", word=item.name, lsf=_RUSAGE)
    return scaled_milli(item.values[0], 0)


def wish_of(settings: Mapping[str, str]) -> GpuWish:
    """Return the wish for one GPU that words ask for, as ``-gpu`` has them.

    Raises:
        ResreqError: A word is not known.
        NotBuiltError: It asks for what no `GpuWish` can say yet.
    """
    for name, value in settings.items():
        _check_setting(name, value)
    model, dash, size = settings.get("gmodel", "").rpartition("-")
    mem_mib = _model_mib(size) if dash else 0
    is_blocked = settings.get("block") == "yes"
    found = GpuWish(
        model=model if mem_mib else settings.get("gmodel", ""),
        mem_mib=mem_mib,
        is_linked="yes" in (settings.get("glink"), settings.get("nvlink")),
        mig=settings.get("mig", ""),
        is_exclusive=settings.get("mode") == "exclusive_process",
        vendor="amd" if settings.get("gvendor") == "amd" else "",
        is_blocked=is_blocked,
        # As in LSF: with blocks no task has a GPU of its own to be near to.
        is_near=settings.get("aff") == "yes" and not is_blocked,
        mps=_mps_of(settings),
        tile=_tile_of(settings.get("gtile", "")),
    )
    _check_tile(found)
    return found


def _tile_of(text: str) -> int:
    """Return the GPUs of each socket that are asked for.

    Raises:
        ResreqError: It is neither a number nor ``!``.
    """
    if text in ("", "no"):
        return 0
    if text == "!":
        return ALL_SOCKETS
    if not text.isdecimal() or not 1 <= int(text) <= DEVICES_MAX:
        raise ResreqError(
            f"gtile is '!' or a number of GPUs up to {DEVICES_MAX}", word=text, lsf=_RUSAGE
        )
    return int(text)


def _mps_of(settings: Mapping[str, str]) -> str:
    """Return what is said of MPS, in one form.

    Raises:
        ResreqError: It is nothing that can be said, or the GPUs are AMD's.
        NotBuiltError: A job would have several daemons on a host.
    """
    first, *words = settings.get("mps", "no").split(",")
    other = [word for word in (first, *words) if word in _MPS_WAYS]
    if other:
        raise NotBuiltError(
            f"{other[0]} of mps is not built yet: mps=yes gives a job one control daemon on each"
            " of its hosts, for all its GPUs there",
            word=other[0],
        )
    if first == "no" and not words:
        return ""
    ways = [way for way in (SHARED, HIDDEN) if way in words]
    if first != "yes" or sorted(words) != sorted(ways):
        text = f"mps is yes, yes,{SHARED}, yes,{HIDDEN}, yes,{SHARED},{HIDDEN} or no"
        raise ResreqError(text, word=settings["mps"], lsf=_RUSAGE)
    models = vendor_of(settings.get("gmodel", ""))
    if "amd" in (settings.get("gvendor"), models):
        raise ResreqError(
            "mps=yes is NVIDIA's, and AMD's GPUs are asked for", word="mps", lsf=_RUSAGE
        )
    return ",".join((first, *ways))


def _check_setting(name: str, value: str) -> None:
    first = value.split(",", maxsplit=1)[0]
    wanted: tuple[str, ...] = ("yes", "no")
    if name == "mode":
        wanted = ("shared", "exclusive_process")
    elif name == "gvendor":
        wanted = ("nvidia", "amd")
    if name not in ("gmodel", "gtile", "mig", "mps") and first not in wanted:
        raise ResreqError(f"{name} is {' or '.join(wanted)}", word=value, lsf=_RUSAGE)


def _model_mib(text: str) -> int:
    """Return the memory that a model's name ends in, as in ``H100-80G``; 0: it is none."""
    number, unit = text[:-1], text[-1:].upper()
    if text.upper().endswith("GB"):
        number, unit = text[:-2], "G"
    if not number.isdecimal() or unit not in ("G", "M", "T") or len(number) > 6:
        return 0
    return int(number) * {"M": 1, "G": 1024, "T": 1024 * 1024}[unit]


def rusage_part(wish: GpuWish) -> ast.RusagePart:
    """Return the part of ``rusage[]`` that asks for it."""
    name = "ngpus_physical" if wish.is_by_lsf and wish.is_whole else "gpu"
    whole, rest = divmod(wish.count * wish.milli, WHOLE)
    value = f"{whole}.00" if not rest else f"{whole}.{rest:03}".rstrip("0")
    items = [ast.RusageItem(name, (ast.Number(value),), "" if wish.per == "task" else wish.per)]
    if wish.mem_mib:
        items.append(ast.RusageItem("gmem", (ast.Number(f"{wish.mem_mib}.00"),)))
    if wish.tile > 0:
        items.append(ast.RusageItem("gtile", (ast.Number(str(wish.tile)),)))
    if wish.mig and "/" not in wish.mig:
        items.append(ast.RusageItem("mig", (ast.Number(wish.mig),)))
    words = (
        ("gtile", "!" if wish.tile == ALL_SOCKETS else ""),
        ("gmodel", wish.model),
        ("glink", "yes" if wish.is_linked else ""),
        ("mig", wish.mig if "/" in wish.mig else ""),
        ("mode", "exclusive_process" if wish.is_exclusive else ""),
        ("gvendor", wish.vendor),
        ("block", "yes" if wish.is_blocked else ""),
        ("aff", "yes" if wish.is_near else ""),
        ("mps", wish.mps),
    )
    return ast.RusagePart(tuple(items), gpu=tuple(word for word in words if word[1]))
