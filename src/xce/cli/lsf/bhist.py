"""``bhist``: how long jobs were in which state, and what happened to them; it never forgets."""

from __future__ import annotations

from xce.cli.lsf import history_long as long
from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.history_rows import FILTER_USAGE, FILTERS, REFUSED, Filters, HistoryPages
from xce.cli.lsf.history_times import parse_span
from xce.cli.lsf.options import FLAG, VALUE, Options, UsageError
from xce.cli.lsf.rows import expand, job_name
from xce.cli.lsf.values import BadValueError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    Row = dict[str, Any]

USAGE = f"""\
Usage: bhist [options] [job_ID | "job_ID[index_list]" ...]
  (none)          own jobs that are not over; with ids: those, whatever their state and owner
  -a -d -e        all; over; ended EXIT        -p -r -s    pending; running; suspended
  -l  -b  -UF     all that happened; the most important of it; without line breaks
  -w              names are not cut
  -t [-T t0,t1]   what happened to all these jobs, in order of time
{FILTER_USAGE}\
  -n number       files of events to look into: there is one history, always looked into whole
"""
OPTIONS = Options(
    {
        **dict.fromkeys(("-a", "-d", "-e", "-p", "-r", "-s", "-l", "-b", "-w", "-t", "-UF"), FLAG),
        **FILTERS,
        "-n": VALUE,
        "-T": VALUE,
    },
    {
        **REFUSED,
        "-cname": "there is one cluster",
        "-data": "there is no data manager",
        "-aff": "affinity is not kept",
        "-gpu": "counters of a job stand in its requirement: bhist -l",
        "-hostfile": "hosts are asked for by -m",
    },
    bundled=True,
)
_SCOPES = {"-d": "finished", "-e": "exited", "-p": "pend", "-r": "run", "-s": "susp"}
_NOTHING = {
    "finished": "No matching job found",
    "all": "No matching job found",
    "exited": "No matching job found",
    "unfinished": "No unfinished job found",
    "pend": "No pending job found",
    "run": "No running job found",
    "susp": "No suspended job found",
}
_WORDS = ("pend", "psusp", "run", "ususp", "ssusp", "unkwn")
_HEADER = "JOBID   USER    JOB_NAME  PEND    PSUSP   RUN     USUSP   SSUSP   UNKWN   TOTAL"


def parse_scope(context: Context, filters: Filters) -> str:
    """Return which states are wanted.

    Raises:
        UsageError: Options exclude each other.
    """
    parsed = context.parsed
    given = [scope for option, scope in _SCOPES.items() if parsed.has(option)]
    if parsed.has("-a"):
        return "all"
    if len(given) > 1:
        raise UsageError("only one of -d -e -p -r -s can be given; -a means all states")
    if given:
        return given[0]
    # Times of the past are of jobs in any state.
    past = any(name in ("submitted", "dispatched", "ended") for name, _ in filters.pairs)
    return "all" if filters.ids or past else "unfinished"


def seconds_of(row: Row) -> list[int]:
    """Return the whole seconds in each state, and their sum."""
    spans = [int(row["spans"].get(word) or 0) for word in _WORDS]
    return [*spans, sum(spans)]


def render_summary(rows: list[Row], *, wide: bool) -> list[str]:
    """Return a line for each job."""
    lines = []
    for row in expand(rows):
        name, user = job_name(row), row["user"]
        if not wide:
            user = user[:7]
            if len(name) > 9:
                name = f"*{name[-8:]}"
        cells = [f"{span:<7}" for span in seconds_of(row)]
        lines.append(f"{row['jobid']:<7} {user:<7} {name:<9} {' '.join(cells).rstrip()}\n")
    return lines


def execute(context: Context) -> int:
    """Tell the history."""
    parsed = context.parsed
    try:
        filters = Filters(parsed)
    except BadValueError as error:
        context.err(f"{error}.")
        return FAILED
    if parsed.has("-n") and not parsed.value("-n").replace(",", "").strip().isdecimal():
        raise UsageError(f"-n {parsed.value('-n')}: expected a number")
    if parsed.has("-T") and not parsed.has("-t"):
        raise UsageError("-T belongs to -t")
    scope = parse_scope(context, filters)
    pages = HistoryPages(context.api, "/history/jobs", filters, [("scope", scope)])
    if parsed.has("-t"):
        found = _list_by_time(context, pages)
    elif parsed.has("-l") or parsed.has("-UF") or parsed.has("-b"):
        found = _list_long(context, pages)
    else:
        found = False
        for rows in pages:
            if not found:
                context.out("Summary of time in seconds spent in various states:")
                context.out(_HEADER)
            found = True
            context.out_block(render_summary(rows, wide=parsed.has("-w")))
    for one in pages.missing:
        context.err(f"Job <{one}> is not found")
    if not found and not pages.missing:
        context.err(_NOTHING[scope])
    return FAILED if pages.missing or not found else 0


def _list_long(context: Context, pages: HistoryPages) -> bool:
    parsed = context.parsed
    with_year = context.environ.get("LSB_DISPLAY_YEAR", "") in {"Y", "y"}
    found = False
    for rows in pages:
        for row in expand(rows):
            if found:
                context.out(long.SEPARATOR)
            found = True
            for line in long.render_history(
                row,
                seconds_of(row),
                pages.now_s,
                wrapped=not parsed.has("-UF"),
                with_year=with_year,
                brief=parsed.has("-b"),
            ):
                context.out(line)
    return found


def _list_by_time(context: Context, pages: HistoryPages) -> bool:
    parsed = context.parsed
    with_year = context.environ.get("LSB_DISPLAY_YEAR", "") in {"Y", "y"}
    low, high = 0.0, float("inf")
    told: list[tuple[float, int, str]] = []
    for rows in pages:
        if parsed.has("-T"):
            first, _, last = parse_span(parsed.value("-T"), pages.now_s, option="-T").partition(",")
            low, high = float(first or 0), float(last or "inf")
        for row in expand(rows):
            for number, (at, text) in enumerate(long.statements(row, with_year=with_year)):
                if low <= at <= high:
                    told.append((at, number, f"Job <{long.label(row)}> {text}"))
    told.sort()
    for at, _, text in told:
        context.out_block([f"{line}\n" for line in long.dated(at, text, with_year=with_year)])
    return bool(told)


def main() -> NoReturn:
    """Run ``bhist``."""
    run_main(OPTIONS, USAGE, execute)
