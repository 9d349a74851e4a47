"""A table as CSV: a column ``host``, and one for each level, the narrowest first."""

import csv
import io

from xce.cli.xceadmin.topology.found import Found, FoundError
from xce.config.names import expand_names
from xce.model.errors import TextError


def read_table(text: str) -> Found:
    """Return what a table says; a host may be a pattern of names.

    Raises:
        FoundError: It is no such table.
    """
    rows = list(csv.reader(io.StringIO(text)))
    rows = [[cell.strip() for cell in row] for row in rows if row and not row[0].startswith("#")]
    rows = [row for row in rows if any(row)]
    if not rows or rows[0][0].lower() not in ("host", "name", "hostname") or len(rows[0]) < 2:
        raise FoundError("expected a first line such as: host,switch,block")
    levels = tuple(name.lower() for name in rows[0][1:])
    domains: dict[str, tuple[str, ...]] = {}
    notes: list[str] = []
    for number, row in enumerate(rows[1:], 2):
        if len(row) != len(rows[0]):
            raise FoundError(f"row {number}: {len(row)} cells, not {len(rows[0])}")
        try:
            names = expand_names(row[0])
        except TextError as error:
            raise FoundError(f"row {number}: {error.message}") from error
        for name in names:
            if name in domains:
                notes.append(f"{name} stands twice: the first row counts")
            domains.setdefault(name, tuple(row[1:]))
    return Found(domains, notes=tuple(notes), levels=levels)
