"""Where the local files of ``bsub -f`` are: which host of the cluster is their machine."""

import re
from typing import Final

from xce.model.job import JobSpec
from xce.model.refusal import Refusal, RefusalCode
from xce.state.cluster import ClusterState

_BOOT: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The boot of a machine, in a place on one of its own disks."""


def find_file_host(state: ClusterState, spec: JobSpec, number: int) -> str:
    """Return the host that has the local file of a transfer; empty: there is none.

    It is the machine where the place of the file was noted. Where none of that boot is here, or
    several, the name in the submission says it.
    """
    hosts = state.hosts
    if not 0 <= number < len(spec.transfers):
        return ""
    boot = _boot_of(spec, number)
    named = [spec.from_host, spec.from_host.partition(".")[0]]
    named = [name for name in named if name in hosts.number]
    for name in named:
        if hosts.boot_ids[hosts.number[name]] == boot:
            return name
    if boot and boot in hosts.boot_ids:
        return hosts.names[hosts.boot_ids.index(boot)]
    return named[0] if named else ""


def describe_unreachable(state: ClusterState, spec: JobSpec) -> str:
    """Return why a file of a job can be copied on no host of the cluster, or an empty text."""
    for number, transfer in enumerate(spec.transfers):
        boot = _boot_of(spec, number)
        if _BOOT.fullmatch(boot) and not find_file_host(state, spec, number):
            return (
                f"{transfer[0]} of -f is on a disk of a machine that is no host of the cluster, so "
                "that it cannot be copied: use a directory that hosts share, -is FILE for what "
                "goes in and bpeek for what comes out, or let a worker run on that machine (closed "
                "if it shall take no jobs)"
            )
    return ""


def refuse_unreachable(state: ClusterState, spec: JobSpec) -> Refusal | None:
    """Return a refusal where a file of a job can be copied on no host, and every host has told
    which machine it is; before that a submission is only warned about.
    """
    text = describe_unreachable(state, spec)
    if not text or not all(state.hosts.boot_ids):
        return None
    return Refusal(RefusalCode.UNKNOWN_HOST, text)


def _boot_of(spec: JobSpec, number: int) -> str:
    return spec.transfers[number][3].partition(" ")[2].partition(" ")[0]
