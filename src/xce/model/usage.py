"""What running attempts use. It is measured when somebody asks, and stands in no journal."""

import msgspec

from xce.model.ids import Index, JobId, Micros


class AttemptUse(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What an attempt uses on one host."""

    job: JobId
    index: Index
    attempt: int
    cpu_us: Micros
    """Of everything that it had there."""
    mem_kib: int
    max_mem_kib: int
    """The largest that was seen."""
    avg_mem_kib: int
    """Over all looks of this shepherd, one every few seconds."""
    swap_kib: int
    threads: int
    pid: int
    """The job shell's, which leads its session; 0: it has none there."""
    pids: tuple[int, ...] = ()
    """Its processes, the first ones where they are many."""
