"""``bjobs``: list jobs."""

from __future__ import annotations

from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.jobs_query import ELIGIBLE_FORMS, LEVELS, PENDING_FORMS, Pages, Query
from xce.cli.lsf.options import FLAG, VALUE, Options, Parsed, UsageError
from xce.cli.lsf.values import BadValueError
from xce.client.rest import ProblemError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from xce.cli.lsf.jobs_format import Format

    Row = dict[str, Any]
    Lister = Callable[[Context, Query], Pages]

USAGE = """\
Usage: bjobs [options] [job_ID | "job_ID[index_list]" ...]
  (none)            own jobs that are not over; with ids: those, whatever their state and owner
  -a  -d            over or not; over
  -p  -r  -s        pending with reasons; running; suspended with reasons
  -p0  -p1          as -p; with the first reason alone
  -p2  -p3          with the reasons of hosts that could run it if they were free; of all hosts
  -pe  -pi  -pei    pending and eligible for scheduling; not eligible; one list of each
  -psum             reasons of pending jobs, counted
  -u user|all  -q queue  -m "hosts"  -J "name"  -P project     only these; * in a name
  -g /group         only of this job group
  -G group          only of this group of shares, whoever's
  -Jd "text"        only with this description; * in it
  -app profile      only of this application profile
  -rusage "r1,r2"   only jobs whose rusage[] asks for all of these
  -x                only exceptions: jobs that ran longer (overrun) or shorter (underrun) than
                    those of their queue shall, or use less CPU time (idle)
  -w  -W            nothing cut; more columns
  -l  -UF           long; long without line breaks
  -A                arrays with their elements counted
  -o "field[:[-]width[:unit]] ... [delimiter='c']"             columns of your choice
  -json             the same as JSON           -noheader        without column headings
  -hms              spans as hh:mm:ss          -X               hosts one by one (they always are)
  -WF  -WL  -WP     nothing cut, and when it will end; the time left; the part that is done
  -sum              slots of all these jobs, counted by state
  -script job_ID    the text that the job runs
  -env job_ID       the variables that it was submitted with; for its owner and administrators
"""
OPTIONS = Options(
    {
        **dict.fromkeys(
            (
                *PENDING_FORMS, "-a", "-A", "-d", "-r", "-s", "-l", "-w", "-W", "-UF", "-X",
                "-json", "-noheader", "-hms", "-WF", "-WL", "-WP", "-sum", "-psum", "-script",
                "-env", "-x", "-gpu", "-aff",
            ),
            FLAG,
        ),
        **dict.fromkeys(
            ("-u", "-q", "-m", "-J", "-Jd", "-P", "-o", "-g", "-G", "-app", "-rusage"), VALUE
        ),
    },
    {
        "-sla": "there are no service classes",
        "-Lp": "there is no licence scheduler",
        "-N": "CPU times are as measured: hosts have no CPU factors",
        "-data": "there is no data manager",
        "-hostfile": "hosts are asked for by -m",
        "-aps": "there is no priority by APS: use -o 'jobid priority'",
        "-prio": "there is no priority by APS, whose factors it shows: use -o 'jobid priority'",
        "-plan": "use 'xcecli why ID'",
        "-ss": "there is no session scheduler",
        "-fwd": "there is one cluster",
        "-bucket": "use 'xcecli why ID'",
        "-U": "there are no advance reservations",
    },
    bundled=True,
)  # fmt: skip
_SELECTION = frozenset(
    (
        "-u",
        "-q",
        "-m",
        "-J",
        "-Jd",
        "-P",
        "-g",
        "-G",
        "-app",
        "-rusage",
        "-x",
        "-X",
        "--wait-daemon",
    )
)
_GOES_WITH = {
    "-A": frozenset(("-u", "-J", "-a", "-d", "-w", "-noheader", "-X", "--wait-daemon")),
    "-script": frozenset(("--wait-daemon",)),
    "-env": frozenset(("--wait-daemon",)),
    "-psum": _SELECTION | {*PENDING_FORMS},
    "-sum": _SELECTION | {"-a", "-d", "-p", *ELIGIBLE_FORMS[:2], "-r", "-s", "-noheader"},
    "-pei": _SELECTION
    | {"-p", *LEVELS, "-w", "-W", "-WF", "-WL", "-WP", "-l", "-UF", "-gpu", "-aff", "-o", "-hms"}
    | {"-noheader"},
}
"""Form -> the other options that mean something to it."""
_CUSTOM_EXCLUDES = ("-l", "-UF", "-w", "-W", "-A", "-WF", "-WL", "-WP", "-sum")


def execute(context: Context) -> int:
    """List the jobs."""
    try:
        form = _form(context.parsed)
        if form == "-A":
            return _list_arrays(context)
        if form in {"-script", "-env"}:
            return _show_text(context, form)
        if form == "-psum":
            return _sum_up(context)
        query = _query(context)
        list_jobs = _chosen(context.parsed, form) or _table_or_columns(context)
        if form != "-pei":
            return _close(context, query, list_jobs(context, query))
        return _close(context, query, *[list_jobs(context, query) for _ in query.halves()])
    except BadValueError as error:
        context.err(f"{error}.")
        return FAILED


def _chosen(parsed: Parsed, form: str) -> Lister | None:
    """Return what lists the jobs where options say it; None: they do not.

    Raises:
        UsageError: Options were given that mean nothing to it.
    """
    is_long = parsed.has("-l") or parsed.has("-UF")
    for option in ("-gpu", "-aff"):
        if parsed.has(option) and not is_long:
            raise UsageError(f"{option} goes with -l or -UF")
    if form == "-sum":
        return _list_sums
    return _list_long if is_long else None


def _table_or_columns(context: Context) -> Lister:
    return _list_custom if _is_custom(context) else _list_table


def _query(context: Context) -> Query:
    """Return which jobs are wanted."""
    query = Query(context.parsed, context.environ.get("LSB_BJOBS_PENDREASON_LEVEL", ""))
    if query.hosts:
        query.forget_cluster(str(context.api.call("GET", "/cluster").get("cluster") or ""))
    return query


def _form(parsed: Parsed) -> str:
    """Return which of the forms that take few options is asked for; empty: none.

    Raises:
        UsageError: An option was given that means nothing to it.
    """
    for form, others in _GOES_WITH.items():
        if parsed.has(form):
            for option in parsed.given:
                if option != form and option not in others:
                    raise UsageError(f"{form} and {option} cannot be used together")
            return form
    return ""


def _is_custom(context: Context) -> bool:
    """Return whether the columns are of the user's choice.

    Raises:
        UsageError: Options that exclude each other were given.
    """
    parsed = context.parsed
    others = [option for option in _CUSTOM_EXCLUDES if parsed.has(option)]
    for option in ("-o", "-json"):
        if parsed.has(option) and others:
            raise UsageError(f"{option} and {others[0]} cannot be used together")
    if parsed.has("-json") and parsed.has("-noheader"):
        raise UsageError("-json and -noheader cannot be used together")
    if parsed.has("-o") or parsed.has("-json"):
        return True
    if others:
        return False
    if context.environ.get("LSB_BJOBS_FORMAT"):
        return True
    if parsed.has("-hms"):
        raise UsageError("-hms needs -o")
    return False


def _reason_forms(parsed: Parsed, query: Query) -> tuple[bool, bool]:
    """Return whether reasons are shown, and whether all that is shown pends."""
    pending = any(parsed.has(option) for option in PENDING_FORMS)
    others = any(parsed.has(option) for option in ("-r", "-s", "-d", "-a"))
    return pending or parsed.has("-s"), pending and not others and not query.ids


def _ending_form(parsed: Parsed) -> str:
    """Return which form about the end of jobs is asked for; empty: none.

    Raises:
        UsageError: Several are.
    """
    ends = [option for option in ("-WF", "-WL", "-WP") if parsed.has(option)]
    if len(ends) > 1 or (ends and parsed.has("-W")):
        raise UsageError("only one of -W -WF -WL -WP can be given")
    return "".join(ends)


def _list_table(context: Context, query: Query) -> Pages:
    from xce.cli.lsf import jobs_table as table  # noqa: PLC0415 - one form's code only

    parsed = context.parsed
    short = context.environ.get("LSB_SHORT_HOSTLIST") == "1"
    width = table.jobid_width(context.environ)
    reasons, only_pending = _reason_forms(parsed, query)
    members = table.MEMBERS
    render: Callable[[list[Row]], list[str]]
    end = _ending_form(parsed)
    if end:
        members = f"{table.MEMBERS},start_at,end_at,run_limit_s,estimate_s"
        header = table.ending_header(end)

        def render(rows: list[Row]) -> list[str]:
            return table.render_ending(rows, end, pages.now_s, short=short)
    elif parsed.has("-W"):
        members = table.WIDE_MEMBERS
        header = table.EXTRA_WIDE_HEADER

        def render(rows: list[Row]) -> list[str]:
            return table.render_extra_wide(rows, short=short)
    elif parsed.has("-w"):
        header = table.wide_header(with_host=not only_pending)

        def render(rows: list[Row]) -> list[str]:
            return table.render_w(
                rows, short=short, with_host=not only_pending, with_reasons=reasons
            )
    elif only_pending:
        header = table.pending_header(width)

        def render(rows: list[Row]) -> list[str]:
            return table.render_short_pending(rows, width)
    else:
        header = table.short_header(width)

        def render(rows: list[Row]) -> list[str]:
            return table.render_short(rows, width, with_reasons=reasons)

    pages = _pages(context, query, f"{members},reason,stop" if reasons else members)
    is_first = not parsed.has("-noheader")
    for rows in pages:
        lines = render(rows)
        context.out_block([header, *lines] if is_first else lines)
        is_first = False
    return pages


def _list_custom(context: Context, query: Query) -> Pages:
    from xce.cli.lsf import jobs_format as custom  # noqa: PLC0415 - one form's code only
    from xce.cli.lsf.jobs_fields import DEFAULT_JSON, View  # noqa: PLC0415

    parsed = context.parsed
    environ = context.environ
    text = parsed.value("-o") or environ.get("LSB_BJOBS_FORMAT") or DEFAULT_JSON
    wanted: Format = custom.parse_format(text)
    pages = _pages(context, query, wanted.members or "stat", is_plain=not parsed.has("-json"))
    hms = parsed.has("-hms") or environ.get("LSB_HMS_TIME_FORMAT", "") in {"Y", "y"}
    unit = environ.get("LSB_UNIT_FOR_JOBS_DISPLAY", "")
    records: list[str] = []
    is_first = not parsed.has("-noheader")
    for rows in pages:
        view = View(pages.now_s, hms=hms, unit=unit)
        if parsed.has("-json"):
            records += custom.render_records(rows, wanted, view)
            continue
        lines = custom.render_lines(rows, wanted, view)
        context.out_block([custom.render_head(wanted), *lines] if is_first else lines)
        is_first = False
    if parsed.has("-json"):
        records += [custom.render_missing(one) for one in pages.missing]
        context.out(custom.render_document(records))
    return pages


def _list_long(context: Context, query: Query) -> Pages:
    from xce.cli.lsf import jobs_long as long  # noqa: PLC0415 - one form's code only
    from xce.cli.lsf.rows import expand  # noqa: PLC0415

    parsed = context.parsed
    if parsed.has("-o") or parsed.has("-json"):
        raise UsageError("-l and -UF cannot be used with -o and -json")
    with_year = context.environ.get("LSB_DISPLAY_YEAR", "") in {"Y", "y"}
    pages = _pages(context, query, "")
    is_first = True
    for rows in pages:
        for row in expand(rows):
            if not is_first:
                context.out(long.SEPARATOR)
            is_first = False
            for line in long.render_long(
                row, pages.now_s, wrapped=not parsed.has("-UF"), with_year=with_year
            ):
                context.out(line)
    return pages


def _list_sums(context: Context, query: Query) -> Pages:
    """List how many slots the jobs have or want, by state."""
    from xce.cli.lsf.jobs_table import SUM_HEADER, render_sums  # noqa: PLC0415 - seldom needed

    pages = _pages(context, query, "hosts,tasks_max,tasks_min")
    rows = [row for page in pages for row in page]
    if rows:
        context.out(SUM_HEADER)
        context.out(render_sums(rows))
    return pages


_TEXTS = {"-script": "script", "-env": "environment"}


def _show_text(context: Context, form: str) -> int:
    """Print the text that one job or element runs, or the variables that it was submitted with."""
    query = Query(context.parsed)
    name, _, index = (query.ids or ("",))[0].rstrip("]").partition("[")
    if len(query.ids) != 1 or (index and not index.isdecimal()):
        raise UsageError(f"{form}: name one job or element")
    pairs = [("index", index)] if index else []
    answer = context.api.request("GET", f"/jobs/{name}/{_TEXTS[form]}", pairs)
    if answer.status >= 400:
        document = answer.value()
        raise ProblemError(answer.status, document if isinstance(document, dict) else {})
    text = answer.body if form == "-script" else answer.body.replace(b"\0", b"\n")
    if text or form == "-script":
        context.out_bytes(text if text.endswith(b"\n") else text + b"\n")
    return 0


def _sum_up(context: Context) -> int:
    from xce.cli.lsf.jobs_reasons import (  # noqa: PLC0415 - of few forms only
        Summary,
        has_candidates,
        render_summary,
    )
    from xce.cli.lsf.rows import is_pending  # noqa: PLC0415

    query = _query(context)
    if not query.ids:
        query.ask_for_pending()
    pages = _pages(context, query, "stat,reason")
    summary = Summary()
    waiting = False
    for rows in pages:
        pending = [row for row in rows if is_pending(row)]
        waiting = waiting or bool(pending)
        summary.add([row for row in pending if query.level != 2 or has_candidates(row)])
    if waiting:
        name = str(context.api.call("GET", "/cluster").get("cluster") or "")
        for line in render_summary(summary, name, pages.now_s):
            context.out(line)
    pages.found = waiting
    return _close(context, query, pages)


def _list_arrays(context: Context) -> int:
    from xce.cli.lsf import jobs_table as table  # noqa: PLC0415 - one form's code only

    parsed = context.parsed
    query = Query(parsed)
    if query.indices is not None or any("[" in one for one in query.ids):
        raise UsageError("-A: no index list is allowed")
    pairs = [("ids", ",".join(query.ids))] if query.ids else []
    if not query.ids and parsed.has("-u"):
        pairs.append(("user", parsed.value("-u")))
    if query.name:
        pairs.append(("name", query.name))
    if query.has_finished:
        pairs.append(("finished", "1"))
    answer = context.api.call("GET", "/arrays", pairs)
    lines = table.render_arrays(answer["arrays"], wide=parsed.has("-w"))
    if lines and not parsed.has("-noheader"):
        context.out_block([table.ARRAY_HEADER])
    context.out_block(lines)
    pages = Pages(context.api, query, "")
    pages.missing = answer.get("missing") or []
    pages.found = pages.unfinished = bool(lines)
    return _close(context, query, pages)


def _pages(context: Context, query: Query, members: str, *, is_plain: bool = True) -> Pages:
    """Return the answers to a query, with reasons of the level that is asked for."""
    hosts = 0
    if query.level >= 2:
        hosts = int(context.api.call("GET", "/cluster").get("hosts") or 0)

    def prepare(rows: list[Row], is_first: bool) -> None:
        for line in query.open_half() if is_first else ():
            context.out(line)
        if query.level or query.names_hosts:
            from xce.cli.lsf.jobs_reasons import apply_level  # noqa: PLC0415 - seldom needed

            apply_level(rows, query.level, hosts, names=query.names_hosts)

    return Pages(context.api, query, members, is_plain=is_plain, on_rows=prepare)


def _close(context: Context, query: Query, first: Pages, *others: Pages) -> int:
    """Say what was not found, and return the exit status."""
    found = first.found or any(pages.found for pages in others)
    for one in first.missing:
        context.err(f"Job <{one}> is not found")
    if not found and not first.missing:
        context.err(query.no_job)
    unfinished = first.unfinished or any(pages.unfinished for pages in others)
    consistent = context.environ.get("LSB_BJOBS_CONSISTENT_EXIT_CODE", "") in {"Y", "y"}
    return exit_status(
        found=found,
        missing=bool(first.missing),
        only_finished=bool(query.ids) and not unfinished and not query.has_finished,
        consistent=consistent,
    )


def exit_status(*, found: bool, missing: bool, only_finished: bool, consistent: bool) -> int:
    """Return LSF's exit status; ``consistent`` is ``LSB_BJOBS_CONSISTENT_EXIT_CODE=Y``."""
    if found and missing:
        return FAILED
    if not consistent:
        return 0
    return FAILED if missing or not found or only_finished else 0


def main() -> NoReturn:
    """Run ``bjobs``."""
    run_main(OPTIONS, USAGE, execute)
