"""What ``bhist`` and ``bacct`` share: filters of a command line, and pages of the history."""

from __future__ import annotations

import time

from xce.cli.lsf.control import parse_group
from xce.cli.lsf.history_times import parse_span
from xce.cli.lsf.jobs_query import id_groups
from xce.cli.lsf.options import FLAG, VALUE, UsageError
from xce.cli.lsf.values import parse_job_id
from xce.client.plain_text import make_plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from xce.cli.lsf.options import Parsed
    from xce.client.rest import Api

    Row = dict[str, Any]

PAGE = 2_000
FILTERS = dict.fromkeys(("-u", "-q", "-m", "-J", "-P", "-g", "-C", "-D", "-S"), VALUE)
FILTER_USAGE = """\
  -u user|all  -q queue  -m host  -J "name"  -P project      only these; * in a name
  -g /group                                     only jobs of this job group
  -C t0,t1  -D t0,t1  -S t0,t1      ended, dispatched, submitted in that time:
                  [yyyy/][mm/][dd/][HH:MM], . is now, .-2 two days ago; an end may be left out
"""
REFUSED = {
    "-app": "select by -q, -P, -u or -J",
    "-sla": "there are no service classes",
    "-G": "select by -u, -q, -P, -g or -J",
    "-Lp": "there is no licence scheduler",
    "-N": "CPU times are as measured: hosts have no CPU factors",
    "-f": "there is one history, without files: see 'xceadmin history export'",
}
_SPANS = (("-S", "submitted"), ("-D", "dispatched"), ("-C", "ended"))
_WORDS = (("-u", "user"), ("-m", "host"), ("-J", "name"), ("-P", "project"), ("-q", "queue"))
FLAGS = FLAG


class Filters:
    """Which jobs a command line means."""

    __slots__ = ("ids", "pairs")

    def __init__(self, parsed: Parsed) -> None:
        """Read the filters.

        Raises:
            BadValueError: A word is no job id.
            UsageError: A time is none, or there are several queues or hosts.
        """
        self.ids = [parse_job_id(word) for word in parsed.rest]
        self.pairs: list[tuple[str, str]] = []
        if "0" in self.ids:
            self.ids = []
        for option, name in _WORDS:
            if not parsed.has(option):
                continue
            value = parsed.value(option).strip()
            if option in ("-q", "-m", "-u") and len(value.split()) != 1:
                raise UsageError(f"{option} {value}: one at a time")
            self.pairs.append((name, value))
        if parsed.has("-g"):
            self.pairs.append(("group", parse_group(parsed.value("-g"))))
        now = time.time()
        for option, name in _SPANS:
            if parsed.has(option):
                self.pairs.append((name, parse_span(parsed.value(option), now, option=option)))


class HistoryPages:
    """The rows of a question, page by page; what was missing is known at the end."""

    __slots__ = ("_api", "_filters", "_pairs", "_path", "missing", "now_s")

    def __init__(self, api: Api, path: str, filters: Filters, pairs: list[tuple[str, str]]) -> None:
        """Args: the cluster; the route; what is wanted; more parameters."""
        self._api = api
        self._path = path
        self._filters = filters
        self._pairs = pairs
        self.missing: list[str] = []
        self.now_s = 0.0

    def __iter__(self) -> Iterator[list[Row]]:
        """Yield the rows of each page that has any."""
        base = [*self._filters.pairs, *self._pairs, ("limit", str(PAGE))]
        for group in id_groups(self._filters.ids) if self._filters.ids else [""]:
            cursor = ""
            while True:
                pairs = [*base, ("ids", group)] if group else list(base)
                if cursor:
                    pairs.append(("cursor", cursor))
                answer = self._api.call("GET", self._path, pairs)
                self.now_s = float(answer["now"])
                self.missing += [one for one in answer["missing"] if one not in self.missing]
                if answer["rows"]:
                    make_plain(answer["rows"])
                    yield answer["rows"]
                cursor = answer.get("next") or ""
                if not cursor:
                    break
