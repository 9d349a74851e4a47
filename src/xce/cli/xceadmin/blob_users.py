"""Which jobs a damaged script, environment or input belongs to."""

from collections.abc import Iterable

from xce.journal.interface import JournalReader
from xce.journal.recover import recover
from xce.model.errors import CorruptJournalError
from xce.model.ids import JobId
from xce.state.apply import apply
from xce.state.cluster import ClusterState
from xce.state.snapshot import load


def find_blob_users(reader: JournalReader, digests: Iterable[str]) -> dict[str, list[JobId]]:
    """Return the unfinished jobs that name each blob; nothing where the state cannot be had."""
    try:
        state, _, _ = recover(reader, restore=load, empty=ClusterState, apply_entry=apply)
    except CorruptJournalError:
        return {}
    users: dict[str, list[JobId]] = {digest: [] for digest in digests}
    for number in sorted(job for jobs in state.unfinished.values() for job in jobs):
        spec = state.specs[state.jobs[number].spec_id]
        for digest in {spec.script, spec.env, spec.files.input_blob}:
            if digest in users:
                users[digest].append(number)
    return users


def render_damaged_blobs(users: dict[str, list[JobId]], digests: Iterable[str]) -> list[str]:
    """Return a line for each damaged blob: its hash, and what it ends."""
    lines = []
    for digest in digests:
        jobs = users.get(digest)
        if jobs is None:
            fate = "which jobs name it cannot be told"
        elif jobs:
            named = ", ".join(map(str, jobs[:10])) + (", ..." if len(jobs) > 10 else "")
            fate = f"unfinished jobs that name it, and end if they start: {named}"
        else:
            fate = "no unfinished job names it"
        lines.append(f"DAMAGED blob {digest} (a script, environment or input): {fate}")
    return lines
