"""What a journal says is given out, against what it says runs: what a controller checks first."""

from xce.journal.interface import JournalReader
from xce.journal.recover import recover
from xce.state.apply import apply
from xce.state.check import find_usage_differences
from xce.state.cluster import ClusterState
from xce.state.snapshot import load

SHOWN_MAX = 20


def render_allocations(reader: JournalReader) -> tuple[str, bool]:
    """Return what was found, and whether all is well.

    Raises:
        CorruptJournalError: The journal cannot be read to its end.
    """
    state, seq, _ = recover(reader, restore=load, empty=ClusterState, apply_entry=apply)
    differences = find_usage_differences(state)
    if not differences:
        attempts = sum(map(len, state.on_host.values()))
        return f"allocations at entry {seq}: the sums of {attempts} that run", True
    lines = [f"allocations at entry {seq}: {len(differences)} differ from what runs"]
    lines += [f"  {text}" for text in differences[:SHOWN_MAX]]
    if len(differences) > SHOWN_MAX:
        lines.append(f"  ... and {len(differences) - SHOWN_MAX} more")
    lines.append(
        "a controller starts nothing on it; a changed configuration (xceadmin apply) makes the "
        "sums anew, then restart the controller"
    )
    return "\n".join(lines), False
