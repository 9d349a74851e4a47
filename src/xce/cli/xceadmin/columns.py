"""Rows of text in columns."""

from collections.abc import Sequence


def render_columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows, the first being the head, each cell as wide as the widest of its column."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
