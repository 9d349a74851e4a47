"""What ``bjobs`` asks the cluster for, and the rows that come back, page by page."""

from __future__ import annotations

from xce.cli.lsf.control import parse_group
from xce.cli.lsf.options import Parsed, UsageError
from xce.cli.lsf.rows import is_eligible, is_pending
from xce.cli.lsf.values import BadValueError, parse_job_id
from xce.client.plain_text import make_plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from xce.client.rest import Api

    Row = dict[str, Any]

PAGE = 20_000
"""Rows of one answer at most."""
_QUERY_MAX = 6_000
"""Characters of ids in one request: servers take request lines of 8 KiB."""
LEVELS = ("-p0", "-p1", "-p2", "-p3")
"""With the reasons as LSF's levels have them: 0 is the default, 1 the first one alone, 2 by kind of
host that could run the job, 3 by kind of any host."""
ELIGIBLE_FORMS = ("-pe", "-pi", "-pei")
"""Those that a session tries, those that it does not try however much is free, one after the other.
"""
PENDING_FORMS = ("-p", *LEVELS, *ELIGIBLE_FORMS)
_STATES = {"-p": "pend,psusp", "-r": "run", "-s": "psusp,susp", "-d": "done,exit"}
_NO_JOB = {
    "-p": "No pending job found",
    "-r": "No running job found",
    "-s": "No suspended job found",
    "-d": "No DONE/EXIT job found",
}


class Query:
    """Which jobs are wanted."""

    __slots__ = (
        "answers", "app", "description", "eligible", "exceptions", "group", "has_finished",
        "has_opened", "hosts", "ids", "indices", "is_long", "level", "name", "names_hosts",
        "no_job", "only_pending", "pairs", "project", "queue", "rusage", "user_group",
    )  # fmt: skip

    def __init__(self, parsed: Parsed, level: str = "") -> None:
        """Read the filters of a command line.

        Args:
            parsed: The command line.
            level: The level of reasons where an option asks for reasons and names none.

        Raises:
            BadValueError: A word is no job id.
            UsageError: Filters contradict each other.
        """
        self.ids = [parse_job_id(word) for word in parsed.rest]
        if "0" in self.ids:
            self.ids = []
        self.name, self.indices = _split_pattern(parsed.value("-J"))
        self.project = parsed.value("-P")
        self.description = parsed.value("-Jd")
        self.user_group = parsed.value("-G")
        if self.user_group and parsed.has("-u"):
            raise UsageError("-G and -u cannot be used together")
        self.rusage = _resources(parsed.value("-rusage")) if parsed.has("-rusage") else frozenset()
        self.exceptions = parsed.has("-x")
        self.is_long = parsed.has("-l") or parsed.has("-UF")
        self.names_hosts = self.is_long and any(parsed.has(option) for option in PENDING_FORMS)
        self.level = _level(parsed, level)
        form = _only_one(parsed, ELIGIBLE_FORMS)
        self.eligible = None if form in {"", "-pei"} else form == "-pe"
        self.only_pending = form == "-pei"
        self.has_opened = False
        self.answers: list[Any] = []
        self.hosts = frozenset(parsed.value("-m").split())
        states = [option for option in _STATES if parsed.has(option)]
        if any(parsed.has(option) for option in PENDING_FORMS[1:]) and "-p" not in states:
            states.insert(0, "-p")
        self.has_finished = parsed.has("-a") or parsed.has("-d")
        self.no_job = _NO_JOB.get(" ".join(states), "No unfinished job found")
        self.pairs: list[tuple[str, str]] = []
        if parsed.has("-a"):
            states = []
            self.no_job = "No job found"
        queues = parsed.value("-q").split()
        if len(queues) > 1:
            raise UsageError(f"-q {parsed.value('-q')}: one queue at a time")
        self.queue = queues[0] if queues else ""
        self.group = parse_group(parsed.value("-g")) if parsed.has("-g") else ""
        self.app = parsed.value("-app")
        if self.ids:
            return  # the cluster answers for all of them; what does not match is left out here
        filters = ("queue", "name", "group", "app")
        self.pairs += [(name, getattr(self, name)) for name in filters if getattr(self, name)]
        if len(self.hosts) == 1:
            self.pairs.append(("host", next(iter(self.hosts))))
        if states:
            self.pairs.append(("state", ",".join([_STATES[option] for option in states])))
        if self.has_finished:
            self.pairs.append(("finished", "1"))
        if parsed.has("-u") or self.user_group:
            self.pairs.append(("user", parsed.value("-u", "all")))

    def forget_cluster(self, name: str) -> None:
        """Want jobs on any host where ``-m`` names the cluster, as clients of many clusters do."""
        if name in self.hosts:
            self.hosts = frozenset()
            self.pairs = [pair for pair in self.pairs if pair[0] != "host"]

    def ask_for_pending(self) -> None:
        """Want pending jobs only."""
        self.no_job = _NO_JOB["-p"]
        if ("state", _STATES["-p"]) not in self.pairs:
            self.pairs.append(("state", _STATES["-p"]))

    def halves(self) -> Iterator[None]:
        """Turn to the jobs that a session tries, then to the others, each under its heading."""
        for self.eligible in (True, False):
            yield

    def open_half(self) -> list[str]:
        """Return the lines in front of the first rows of a half; none where all is one list."""
        if not self.only_pending:
            return []
        word = "ELIGIBLE" if self.eligible else "INELIGIBLE"
        lines = [""] if self.has_opened else []
        self.has_opened = True
        return [*lines, f"PENDING JOBS {word} FOR SCHEDULING:"]

    @property
    def members(self) -> str:
        """The members of a row that the filters of this side need."""
        wanted = ["stat"]
        wanted += [name for name in ("project", "description", "user_group") if getattr(self, name)]
        if self.hosts:
            wanted.append("hosts")
        if self.rusage:
            wanted.append("rusage")
        if self.exceptions:
            wanted.append("exceptions")
        if self.eligible is not None:
            wanted.append("reason")
        if self.ids:
            wanted += ["queue", "name"]
            wanted += [name for name in ("group", "app") if getattr(self, name)]
        return ",".join(wanted)

    def takes(self, row: Row) -> bool:
        """Return whether a row passes the filters that the cluster was not told."""
        if self.rusage and not any(self.rusage.issubset(one) for one in row.get("rusage") or ()):
            return False
        is_usual = self.exceptions and not row.get("exceptions")
        if is_usual or (self.eligible is not None and not self._takes_half(row)):
            return False
        if self.project and row.get("project") != self.project:
            return False
        if self.user_group and row.get("user_group") != self.user_group:
            return False
        if self.description and not matches(self.description, row.get("description") or ""):
            return False
        if self.ids and self.queue and row.get("queue") != self.queue:
            return False
        if self.ids and self.group and row.get("group") != self.group:
            return False
        if self.ids and self.app and row.get("app") != self.app:
            return False
        if self.ids and self.name and not matches(self.name, row.get("name") or ""):
            return False
        return not self.hosts or any(name in self.hosts for name, _ in row.get("hosts") or ())

    def _takes_half(self, row: Row) -> bool:
        """Return whether a row is of the half of the pending jobs that is wanted."""
        if not is_pending(row):
            return not self.only_pending
        return is_eligible(row) is self.eligible

    def choose(self, rows: list[Row]) -> list[Row]:
        """Return the rows that pass, a row of many elements cut to the wanted indices."""
        filters = (self.project, self.hosts, self.ids, self.description, self.user_group)
        if any(filters) or self.rusage or self.exceptions or self.eligible is not None:
            rows = [row for row in rows if self.takes(row)]
        if self.indices is None:
            return rows
        chosen = []
        for row in rows:
            step = row.get("step", 1)
            count = row.get("count", 1)
            for index in range(row["index"], row["index"] + count * step, step):
                if any(index in run for run in self.indices):
                    chosen.append({**row, "index": index, "count": 1, "step": 1})
        return chosen


def _only_one(parsed: Parsed, options: tuple[str, ...]) -> str:
    """Return which of the options was given; empty: none.

    Raises:
        UsageError: Several were.
    """
    given = [option for option in options if parsed.has(option)]
    if len(given) > 1:
        raise UsageError(f"only one of {' '.join(options)} can be given")
    return given[0] if given else ""


def _level(parsed: Parsed, usual: str) -> int:
    """Return the level of reasons that options ask for; 0 where they ask for none.

    Raises:
        UsageError: They ask for several.
    """
    asked = _only_one(parsed, LEVELS)
    if not asked and any(parsed.has(option) for option in (*PENDING_FORMS, "-psum")):
        asked = f"-p{usual}"
    return LEVELS.index(asked) if asked in LEVELS else 0


def _resources(text: str) -> frozenset[str]:
    """Return the names of ``-rusage``.

    Raises:
        UsageError: There is none, or something else than names and commas.
    """
    names = text.split(",")
    if not all(names) or any(mark.isspace() for mark in text):
        raise UsageError(f"-rusage {text}: names of resources with commas between them, no blanks")
    return frozenset(names)


def matches(pattern: str, name: str) -> bool:
    """Return whether ``name`` is ``pattern``, in which ``*`` stands for any text."""
    first, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    last = rest.pop()
    if not name.startswith(first) or len(name) < len(first) + len(last):
        return False
    if not name.endswith(last):
        return False
    place, end = len(first), len(name) - len(last)
    for part in rest:
        place = name.find(part, place, end)
        if place < 0:
            return False
        place += len(part)
    return True


def _split_pattern(text: str) -> tuple[str, tuple[range, ...] | None]:
    """Return the name pattern and the wanted indices of ``name[1,3-5]``."""
    name, bracket, tail = text.rpartition("[")
    if not bracket or not tail.endswith("]"):
        return text, None
    indices: list[range] = []
    for run in tail[:-1].split(","):
        first, dash, last = run.partition("-")
        if not first.strip().isdecimal() or (dash and not last.strip().isdecimal()):
            raise BadValueError(f"Bad job name: -J {text}: {run!r} is no index")
        indices.append(range(int(first), int(last if dash else first) + 1))
    return name, tuple(indices)


def id_groups(ids: list[str]) -> Iterator[str]:
    """Yield the ids, joined by commas, in groups that fit into one request line."""
    group: list[str] = []
    size = 0
    for one in ids:
        # Brackets and colons take three characters each in a request line.
        length = len(one) + 2 * (one.count("[") + one.count("]") + one.count(":")) + 1
        if group and size + length > _QUERY_MAX:
            yield ",".join(group)
            group, size = [], 0
        group.append(one)
        size += length
    if group:
        yield ",".join(group)


class Pages:
    """The answers to a query, read one after the other; what was missing is known at the end."""

    __slots__ = (
        "_api", "_fields", "_is_plain", "_on_rows", "_query", "found", "missing", "now_s",
        "unfinished",
    )  # fmt: skip

    def __init__(
        self,
        api: Api,
        query: Query,
        fields: str,
        *,
        is_plain: bool = True,
        on_rows: Callable[[list[Row], bool], None] | None = None,
    ) -> None:
        """Args: the cluster; what is wanted; members of a row, or an empty text for all; whether
        texts are made fit for lines; what is called with the rows of each page before they are
        given, and whether they are the first.
        """
        self._is_plain = is_plain
        self._on_rows = on_rows
        self._api = api
        self._query = query
        self._fields = fields
        self.missing: list[str] = []
        self.found = False
        self.unfinished = False
        self.now_s = 0.0

    def __iter__(self) -> Iterator[list[Row]]:
        """Yield the rows of each page that has any."""
        for answer in self._query.answers or self._ask():
            self.now_s = float(answer.get("now") or 0)
            for one in answer.get("missing") or ():
                if one not in self.missing:
                    self.missing.append(one)
            rows = self._query.choose(answer["jobs"])
            if rows:
                if self._on_rows is not None:
                    self._on_rows(rows, not self.found)
                self.found = True
                if self._is_plain:
                    make_plain(rows)
                self.unfinished = self.unfinished or any(
                    row["stat"] not in {"DONE", "EXIT"} for row in rows
                )
                yield rows

    def _members(self) -> list[str]:
        """Return the members of a row that are asked for, where not all are."""
        wanted = dict.fromkeys(f"{self._fields},{self._query.members}".split(","))
        return [name for name in wanted if name]

    def _ask(self) -> Iterator[Any]:
        """Yield the cluster's answers; they are kept where both halves are read off them."""
        base = [*self._query.pairs, ("limit", str(PAGE))]
        if self._query.names_hosts:
            base.append(("host_names", "1"))
        if self._query.is_long or {"usage", "exceptions"} & set(self._members()):
            base.append(("usage", "1"))
        if self._fields:
            base.append(("fields", ",".join(self._members())))
        kept = []
        for group in id_groups(self._query.ids) if self._query.ids else [""]:
            cursor = ""
            while True:
                pairs = [*base, ("ids", group)] if group else list(base)
                if cursor:
                    pairs.append(("cursor", cursor))
                answer = self._api.call("GET", "/jobs", pairs)
                if self._query.only_pending:
                    kept.append(answer)
                yield answer
                cursor = answer.get("next") or ""
                if not cursor:
                    break
        self._query.answers = kept
