"""What a session touched. Tests count work, since time depends on the machine."""

import msgspec


class Counts(msgspec.Struct):
    """Work done by one session or, when handed on, by several."""

    classes: int = 0
    """Request classes looked at: each with waiting jobs, once for each time at the front."""
    tries: int = 0
    """Requests held against what is free; a class that sleeps or is known to fail is none."""
    host_rows: int = 0
    """Rows of host columns that filters, scorers and allocators ran over. The one subtraction that
    finds out what is free is not counted."""
    runs: int = 0
    """Runs of elements that were placed."""
