"""What one machine says of its GPUs: ``nvidia-smi topo -m``, and lstopo's XML."""

import re
from collections.abc import Iterator
from typing import Final
from xml.etree import ElementTree as ET

from xce.cli.xceadmin.topology.found import Found, FoundError, GpusFound, linked_domains

_GPU: Final = re.compile(r"GPU(\d+)")
_LINK: Final = re.compile(r"NV\d+")
_COLOUR: Final = re.compile("\x1b\\[[0-9;]*m")
_XML_MAX: Final = 32 * 1024 * 1024


def read_nvidia_smi(text: str) -> Found:
    """Return the GPUs of the output of ``nvidia-smi topo -m``.

    Raises:
        FoundError: It is no such output.
    """
    lines = [_COLOUR.sub("", line) for line in text.splitlines() if line.strip()]
    heads = [line for line in lines if "GPU0" in line.split()[:1] and "X" not in line.split()]
    if not heads:
        raise FoundError("no table of GPUs: expected the output of nvidia-smi topo -m")
    head = re.split(r"\t+|\s{2,}", heads[0].strip())
    count = sum(1 for name in head if _GPU.fullmatch(name))
    pairs: set[tuple[int, int]] = set()
    numa: dict[int, int] = {}
    rows: set[int] = set()
    for line in lines:
        words = line.split()
        match = _GPU.fullmatch(words[0])
        if match is None or len(words) <= count or "X" not in words[1 : count + 1]:
            continue
        own = int(match[1])
        rows.add(own)
        for other, word in enumerate(words[1 : count + 1]):
            if _LINK.fullmatch(word):
                pairs |= {(own, other), (other, own)}
        numa[own] = _numa(head, words)
    if rows != set(range(count)):
        raise FoundError(f"{len(rows)} rows for {count} GPUs")
    order = tuple(numa[index] for index in range(count))
    known = order if all(number >= 0 for number in order) else ()
    gpus = GpusFound(count, nvlink=linked_domains(count, pairs), numa=known)
    return Found({}, gpus)


def _numa(head: list[str], words: list[str]) -> int:
    """Return what stands under "NUMA Affinity"; -1: nothing."""
    if "NUMA Affinity" not in head:
        return -1
    behind = len(head) - head.index("NUMA Affinity")
    # A row begins with its own name, which has no heading.
    text = words[-behind] if len(words) >= behind else ""
    return int(text) if text.isdecimal() else -1


def read_hwloc(text: str) -> Found:
    """Return the GPUs of a machine that lstopo wrote as XML.

    Raises:
        FoundError: It is no such file, or names no GPUs.
    """
    if len(text) > _XML_MAX or "<!ENTITY" in text:
        raise FoundError("too long, or not plain: expected what lstopo writes")
    try:
        root = ET.fromstring(text)
    except ET.ParseError as error:
        raise FoundError(f"no XML: {error}") from error
    if root.tag != "topology":
        raise FoundError(f"<{root.tag}> is no topology: expected what lstopo writes")
    found = sorted(_gpus(root, -1), key=lambda item: item[0])
    if not found:
        raise FoundError("it names no GPUs: nothing to import")
    numa = tuple(number for _, number, _, _ in found)
    models = {model for _, _, model, _ in found if model}
    sizes = {size for _, _, _, size in found if size}
    gpus = GpusFound(
        len(found),
        models.pop() if len(models) == 1 else "",
        min(sizes, default=0),
        linked_domains(len(found), _bandwidths(root, len(found))),
        numa if all(number >= 0 for number in numa) else (),
    )
    notes = () if len(models) < 2 else (f"several models: {', '.join(sorted(models))}",)
    return Found({}, gpus, notes)


_DEVICE: Final = re.compile(r"(cuda|rsmi|nvml|opencl\d+d)(\d+)")
_RANK: Final = ("cuda", "rsmi", "nvml", "opencl0d", "opencl1d")


def _gpus(root: ET.Element, numa: int) -> list[tuple[int, int, str, int]]:
    """Return index, NUMA domain, model and memory of each GPU, of the best source that there is."""
    by_kind: dict[str, list[tuple[int, int, str, int]]] = {}
    for kind, index, place, infos in _devices(root, numa):
        model = " ".join(
            infos.get(name, "") for name in ("GPUVendor", "GPUModel") if infos.get(name)
        )
        size = infos.get("CUDAGlobalMemorySize") or infos.get("RSMIVRAMSize") or "0"
        mib = int(size) // 1024 if size.isdecimal() else 0
        by_kind.setdefault(kind, []).append((index, place, model, mib))
    for kind in _RANK:
        if kind in by_kind:
            return by_kind[kind]
    return []


def _devices(element: ET.Element, numa: int) -> Iterator[tuple[str, int, int, dict[str, str]]]:
    """Yield the GPUs below an element, each with the NUMA domain in which it stands."""
    # Since hwloc 2 a NUMA domain stands beside what is near it.
    inside = [
        int(child.get("os_index", "-1"))
        for child in element
        if child.tag == "object" and child.get("type") == "NUMANode"
    ]
    if element.get("type") == "NUMANode":
        numa = int(element.get("os_index", "-1"))
    elif len(inside) == 1:
        numa = inside[0]
    match = _DEVICE.fullmatch(element.get("name", ""))
    if element.get("type") == "OSDev" and match is not None:
        infos = {item.get("name", ""): item.get("value", "") for item in element.findall("info")}
        yield match[1], int(match[2]), numa, infos
    for child in element:
        if child.tag == "object":
            yield from _devices(child, numa)


def _bandwidths(root: ET.Element, count: int) -> set[tuple[int, int]]:
    """Return which GPUs are linked, by lstopo's matrix of NVLink bandwidths."""
    numbers: dict[str, int] = {}
    for element in root.iter("object"):
        match = _DEVICE.fullmatch(element.get("name", ""))
        if match is not None:
            numbers[f"OSDev:{element.get('gp_index')}"] = int(match[2])
    pairs: set[tuple[int, int]] = set()
    for matrix in root.iter("distances2hetero"):
        if matrix.get("name") not in ("NVLinkBandwidth", "XGMIBandwidth"):
            continue
        names = " ".join(item.text or "" for item in matrix.findall("indexes")).split()
        values = " ".join(item.text or "" for item in matrix.findall("u64values")).split()
        if len(values) != len(names) ** 2:
            continue
        for place, value in enumerate(values):
            one, other = (numbers.get(names[at]) for at in divmod(place, len(names)))
            is_pair = one is not None and other is not None and one != other and value != "0"
            if is_pair and one is not None and other is not None and max(one, other) < count:
                pairs |= {(one, other), (other, one)}
    return pairs
