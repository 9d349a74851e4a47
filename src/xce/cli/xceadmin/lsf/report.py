"""What the import says: one line for each parameter, in the order of the files."""

from enum import StrEnum

import msgspec

from xce.cli.xceadmin.lsf.files import Cell, Oddity, Section


class Verdict(StrEnum):
    """What became of a parameter."""

    TAKEN = "taken over as"
    PARTLY = "taken over in part:"
    NONE = "has no counterpart:"
    NOTE = "note:"


class Finding(msgspec.Struct, frozen=True):
    """One line of the report."""

    file: str
    line: int
    where: str
    """Section, object and parameter."""
    value: str
    verdict: Verdict
    text: str

    def render(self) -> str:
        """Return the line."""
        value = f" = {self.value}" if self.value else ""
        return f"{self.file}:{self.line}: {self.where}{value}: {self.verdict.value} {self.text}"


class Findings:
    """The report in the making."""

    def __init__(self) -> None:
        self.lines: list[Finding] = []

    def add(self, section: Section, key: str, verdict: Verdict, text: str, *, of: str = "") -> None:
        """Say what became of a parameter.

        Args:
            section: Where it stands.
            key: The parameter.
            verdict: What became of it.
            text: As what, or why not.
            of: The object that it is about.
        """
        cell = section.cells.get(key, Cell("", section.line))
        where = " ".join(part for part in (section.name, of, key) if part)
        value = " ".join(cell.text.split())
        if len(value) > 60:
            value = f"{value[:57]}..."
        self.lines.append(Finding(section.file, cell.line, where, value, verdict, text))

    def note(self, odd: Oddity) -> None:
        """Say something about a file."""
        self.lines.append(Finding(odd.file, odd.line, "", "", Verdict.NOTE, odd.text))

    def render(self) -> str:
        """Return the whole report, with the numbers in the end."""
        ordered = sorted(self.lines, key=lambda one: (one.file, one.line))
        counts = {v: sum(one.verdict is v for one in ordered) for v in Verdict}
        total = len(ordered) - counts[Verdict.NOTE]
        summary = (
            f"{total} parameters: {counts[Verdict.TAKEN]} taken over, "
            f"{counts[Verdict.PARTLY]} in part, {counts[Verdict.NONE]} without counterpart"
        )
        if notes := counts[Verdict.NOTE]:
            summary += f"; {notes} line{'' if notes == 1 else 's'} marked note: look at these"
        lines = [one.render().replace(":  ", ": ").replace(": :", ":") for one in ordered]
        return "\n".join([*lines, summary, ""])
