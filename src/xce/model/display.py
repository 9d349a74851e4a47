"""STAT words and times as people see them: LSF's one word, folded from a job's small machines."""

from typing import Final

from xce.model.config import WindowConfig
from xce.model.ids import Micros
from xce.model.job import END_CAUSE_TEXT, EndCause, Outcome, Phase

UNFINISHED: Final = ("PEND", "PSUSP", "RUN", "USUSP", "SSUSP", "UNKWN", "ZOMBI")
FINISHED: Final = ("DONE", "EXIT")


def stat_word(
    phase: Phase, outcome: Outcome, *, held: bool, suspended: bool, by_system: bool = False
) -> str:
    """Return LSF's STAT for one element."""
    match phase:
        case Phase.PENDING:
            return "PSUSP" if held else "PEND"
        case Phase.STARTING | Phase.RUNNING:
            if suspended:
                return "SSUSP" if by_system else "USUSP"
            return "RUN"
        case Phase.ENDED:
            return "DONE" if outcome is Outcome.DONE else "EXIT"


def render_window(window: WindowConfig) -> str:
    """Return a run window as LSF writes it: ``20:00-8:30``, ``5:19:00-1:8:30``."""

    def moment(minutes: int) -> str:
        day, rest = divmod(minutes, 24 * 60)
        text = f"{rest // 60}:{rest % 60:02d}"
        if window.weekly:
            return f"{day}:{text}"
        return "24:00" if minutes == 24 * 60 else text

    return f"{moment(window.start_min)}-{moment(window.end_min)}"


def end_cause_keyword(cause: EndCause) -> str:
    """Return ``TERM_...``, or an empty text for a job that ended by itself."""
    return END_CAUSE_TEXT[cause][0] if cause in END_CAUSE_TEXT else ""


def end_cause_text(cause: EndCause) -> str:
    """Return ``TERM_X: text`` without a final stop, or an empty text."""
    if cause not in END_CAUSE_TEXT:
        return ""
    keyword, text = END_CAUSE_TEXT[cause]
    return f"{keyword}: {text}"


def render_utc(at_us: Micros) -> str:
    """Return an instant as ISO 8601 in UTC with microseconds: ``2026-01-31T12:00:00.000000Z``.

    Source: the civil-from-days algorithm of H. Hinnant, "chrono-Compatible Low-Level Date
    Algorithms".
    """
    seconds, micros = divmod(at_us, 1_000_000)
    days, rest = divmod(seconds, 86_400)
    shifted = days + 719_468
    era = shifted // 146_097
    day_of_era = shifted - era * 146_097
    year_of_era = (
        day_of_era - day_of_era // 1_460 + day_of_era // 36_524 - day_of_era // 146_096
    ) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_shifted + 2) // 5 + 1
    month = month_shifted + 3 if month_shifted < 10 else month_shifted - 9
    year = year_of_era + era * 400 + (1 if month <= 2 else 0)
    return (
        f"{year:04d}-{month:02d}-{day:02d}T{rest // 3600:02d}:{rest // 60 % 60:02d}:"
        f"{rest % 60:02d}.{micros:06d}Z"
    )
