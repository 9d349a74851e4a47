"""GPUs as ``bhosts -gpu``, ``lshosts -gpu`` and ``bjobs -l`` show them."""

from __future__ import annotations

from xce.cli.lsf.host_words import size_mib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Host = dict[str, Any]
    Gpu = dict[str, Any]
    Row = dict[str, Any]


def model_text(gpu: Gpu) -> str:
    """Return a model as LSF writes it: no blanks, and ``_`` for ``/``; ``-`` where unknown."""
    text = "".join(str(gpu.get("model") or "").split()).replace("/", "_")
    return text or "-"


def _number(value: object) -> str:
    return "-" if value is None else str(value)


def _share(value: float) -> str:
    return f"{value:g}"


def render_gpus(hosts: list[Host]) -> list[str]:
    """Return the table of ``bhosts -gpu``."""
    lines = [
        (
            f"{'HOST_NAME':<20} {'ID':>4} {'MODEL':>24} {'MTOTAL':>8} {'USED':>6} {'NJOBS':>6} "
            f"{'NVLINK':>6} {'NUMA':>5} STATUS\n"
        )
    ]
    for host in hosts:
        for gpu in host.get("gpus") or ():
            status = (
                gpu["state"] if not gpu.get("comment") else f"{gpu['state']} ({gpu['comment']})"
            )
            lines.append(
                f"{host['name']:<20} {gpu['index']:>4} {model_text(gpu):>24} "
                f"{size_mib(gpu['mem_mib']):>8} {_share(gpu['used']):>6} {len(gpu['jobs']):>6} "
                f"{_number(gpu['nvlink']):>6} {_number(gpu['numa']):>5} {status}\n"
            )
    return lines


def render_host_gpus(host: Host) -> list[str]:
    """Return the lines of ``bhosts -gpu -l`` about one host."""
    gpus = host.get("gpus") or []
    whole = [gpu for gpu in gpus if gpu["state"] == "ok"]
    free = [gpu for gpu in whole if not gpu["used"]]
    lines = [
        f"HOST: {host['name']}\n",
        f"{'NGPUS':<8}{'NGPUS_SHARED_AVAIL':<22}NGPUS_EXCLUSIVE_AVAIL\n",
        f"{len(whole):<8}{sum(gpu['used'] < 1 for gpu in whole):<22}{len(free)}\n",
        "\nSTATIC ATTRIBUTES\n",
        f"{'GPU_ID':<8}{'MODEL':<26}{'MTOTAL':<9}{'SOCKET':<8}{'NVLINK/XGMI':<13}{'MIG':<10}UUID\n",
    ]
    for gpu in gpus:
        mig = gpu.get("profile") or ("Y" if gpu["state"] == "divided" else "N")
        lines.append(
            f"{gpu['index']:<8}{model_text(gpu):<26}{size_mib(gpu['mem_mib']):<9}"
            f"{_number(gpu['numa']):<8}{_number(gpu['nvlink']):<13}{mig:<10}{gpu['uuid'] or '-'}\n"
        )
    lines += ["\nGPU JOB INFORMATION\n", f"{'GPU_ID':<8}{'USED':<8}{'STATUS':<10}RUNJOBIDS\n"]
    for gpu in gpus:
        lines.append(
            f"{gpu['index']:<8}{_share(gpu['used']):<8}{gpu['state']:<10}"
            f"{' '.join(gpu['jobs']) or '-'}\n"
        )
    return [*lines, "\n"]


def render_lshosts(hosts: list[Host]) -> list[str]:
    """Return the table of ``lshosts -gpu``."""
    lines = [
        (
            f"{'HOST_NAME':<20} {'gpu_id':>6} {'gpu_model':>26} {'gpu_mem':>8} {'numa_id':>8} "
            f"{'vendor':>8}"
        )
    ]
    for host in hosts:
        for gpu in host.get("gpus") or ():
            vendor = "AMD" if "AMD" in model_text(gpu).upper() else "Nvidia"
            lines.append(
                f"{host['name']:<20} {gpu['index']:>6} {model_text(gpu):>26} "
                f"{size_mib(gpu['mem_mib']):>8} {_number(gpu['numa']):>8} {vendor:>8}"
            )
    return lines


def allocation_lines(row: Row) -> list[str]:
    """Return the GPUs of a job, as ``bjobs -l`` shows them; none: it has none."""
    gpus = row.get("gpus") or []
    lines: list[str] = []
    if row.get("gpu_asked"):
        started = row.get("start_at") is not None
        lines += [
            "",
            " GPU REQUIREMENT DETAILS:",
            f" Combined: {row['gpu_asked']}",
            f" Effective: {row['gpu_asked'] if started else '-'}",
        ]
    if not gpus:
        return lines
    lines += [
        "",
        " GPU_ALLOCATION:",
        (
            f" {'HOST':<16} {'TASK':<5} {'ID':<4} {'MODEL':<24} {'MTOTAL':<8} {'SHARE':<14} "
            f"{'SOCKET':<7} NVLINK/XGMI"
        ),
    ]
    for gpu in gpus:
        share = _share(gpu["share"])
        if gpu["kind"] != "whole":
            share = f"{share} {gpu['kind']}"
        lines.append(
            f" {gpu['host']:<16} {_number(gpu['task']):<5} {gpu['index']:<4} "
            f"{model_text(gpu):<24} {size_mib(gpu['mem_mib']):<8} {share:<14} "
            f"{_number(gpu['numa']):<7} {_number(gpu['nvlink'])}"
        )
    return lines


def alloc_text(row: Row) -> str:
    """Return the GPUs of a job as ``gpu_alloc`` of ``bjobs -o`` has them: ``h1{0,1}``."""
    found: dict[str, list[str]] = {}
    for gpu in row.get("gpus") or ():
        found.setdefault(gpu["host"], []).append(str(gpu["index"]))
    return " ".join(f"{host}{{{','.join(dict.fromkeys(ids))}}}" for host, ids in found.items())


def count_text(row: Row) -> str:
    """Return how many GPUs a job has."""
    gpus = row.get("gpus") or ()
    return str(len({(gpu["host"], gpu["index"]) for gpu in gpus})) if gpus else ""
