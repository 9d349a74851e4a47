"""Identifiers and instants, as plain integers with a name."""

from typing import Final, TypeAlias

JobId: TypeAlias = int
"""A job's number: 64 bit, counted from 1, never used again."""

Index: TypeAlias = int
"""An array element's index, 1 or more; 0 for a job that is no array."""

Seq: TypeAlias = int
"""An entry's number in the journal, counted from 1; 0 means "before the first"."""

Epoch: TypeAlias = int
"""Number of a leader's reign, counted from 1; a lower one is deposed."""

HostNumber: TypeAlias = int
"""A host's place in the columns, counted from 0, given at the first join and never reused."""

Micros: TypeAlias = int
"""Microseconds: since the epoch (UTC) when the name ends in ``_at_us`` or is ``now_us``,
else a span."""

SECOND_US: Final = 1_000_000
MINUTE_US: Final = 60 * SECOND_US
HOUR_US: Final = 60 * MINUTE_US

NO_HOST: Final = -1
"""Stands in a host column where no host is meant."""
