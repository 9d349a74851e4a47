"""GPUs as REST takes them: the value of ``-gpu``, member by member."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from xce.model.device import DEVICES_MAX, GpuWish
from xce.model.request import Request
from xce.resreq.gpu import wish_of

_MEM_MIB_MAX: Final = 1 << 30
Word = Annotated[str, Meta(max_length=128)]


class GpuBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """GPUs of a job, as LSF's ``-gpu`` has them."""

    num: Annotated[int, Meta(ge=1, le=DEVICES_MAX)] = 1
    num_per: Literal["host", "task"] = "host"
    """``host``: so many on each host that is used; ``task``: for each task."""
    mode: Literal["shared", "exclusive_process"] = "shared"
    j_exclusive: bool = False
    """Whole GPUs are given to one job at a time anyway."""
    mps: bool = False
    """A control daemon of MPS for the job on each of its hosts."""
    mps_options: list[Word] = []
    """``nocvd``: the job is not told its GPUs in ``CUDA_VISIBLE_DEVICES``."""
    gmodel: Word = ""
    """Full, brand or short name of the model, perhaps with ``-80G`` behind it."""
    gmem: Annotated[float, Meta(ge=0, le=_MEM_MIB_MAX)] = 0
    """Least memory of each, in MiB."""
    glink: bool = False
    nvlink: bool = False
    """The old name of ``glink``."""
    mig: Word = ""
    aff: bool = False
    block: bool = False
    gpack: bool = False
    """Shares are packed on GPUs that have some already in any case."""
    gvendor: Literal["nvidia", "amd"] = "nvidia"
    gtile: Annotated[int, Meta(ge=0, le=DEVICES_MAX)] | Literal["!"] = 0
    """So many of each socket of a host that is used; ``!``: evenly over all of them."""


def compile_gpu(body: GpuBody) -> GpuWish:
    """Return the wish.

    Raises:
        NotBuiltError: It asks for what this release does not do.
        ResreqError: It is no wish.
    """
    flags = {"aff": body.aff, "block": body.block}
    settings = {name: "yes" if value else "no" for name, value in flags.items()}
    settings["mps"] = _mps(body)
    settings["gvendor"] = body.gvendor
    settings["mode"] = body.mode
    settings["glink"] = "yes" if body.glink or body.nvlink else "no"
    if body.gmodel:
        settings["gmodel"] = body.gmodel
    if body.mig:
        settings["mig"] = body.mig
    if body.gtile:
        settings["gtile"] = str(body.gtile)
    wish = wish_of(settings)
    return msgspec.structs.replace(
        wish,
        count=body.num,
        per=body.num_per,
        mem_mib=max(wish.mem_mib, -int(-body.gmem // 1)),
        is_by_lsf=True,
    )


def wish_by_lsf(request: Request) -> GpuWish | None:
    """Return what ``-gpu`` asked for of a request; None: nothing."""
    if request.gpu is not None and request.gpu.is_by_lsf:
        return request.gpu
    inner = [one.request for one in request.alternatives]
    inner += [part.request for part in request.parts]
    found = map(wish_by_lsf, inner)
    return next((wish for wish in found if wish is not None), None)


def render_gpu(body: GpuBody) -> str:
    """Return the text of ``-gpu``, as listings show it."""
    words = [
        f"num={body.num}" + ("/task" if body.num_per == "task" else ""),
        f"mode={body.mode}",
        f"mps={_mps(body)}",
        f"j_exclusive={_yes(body.j_exclusive or body.mode == 'exclusive_process')}",
    ]
    if body.gmodel:
        words.append(f"gmodel={body.gmodel}")
    if body.gmem:
        words.append(f"gmem={body.gmem:.15g}M")
    if body.glink or body.nvlink:
        words.append("glink=yes")
    if body.mig:
        words.append(f"mig={body.mig}")
    if body.gtile:
        words.append(f"gtile={body.gtile}")
    if body.gvendor != "nvidia":
        words.append(f"gvendor={body.gvendor}")
    words += [f"{name}=yes" for name in ("aff", "block") if getattr(body, name)]
    return ":".join(words)


def _mps(body: GpuBody) -> str:
    return ",".join([_yes(body.mps), *body.mps_options])


def _yes(value: bool) -> str:
    return "yes" if value else "no"
