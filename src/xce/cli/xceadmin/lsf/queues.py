"""``lsb.queues``: one queue of LSF as one of ``queues.yaml``."""

import re
from collections.abc import Callable
from typing import Any, Final

from xce.cli.xceadmin.lsf.files import Section, list_words
from xce.cli.xceadmin.lsf.limits import PROCESS_LIMITS, minutes_of, size_of, take_process_limit
from xce.cli.xceadmin.lsf.report import Findings, Verdict
from xce.cli.xceadmin.lsf.site import EACH_OTHER, Site, parse_shares
from xce.cli.xceadmin.lsf.verdicts import QUEUE, find_reason
from xce.config.names import QUEUE_NAME, RESERVED_QUEUES
from xce.config.schema import REQUEUES_LIMIT
from xce.config.values import parse_windows
from xce.model.errors import TextError
from xce.model.exit_values import parse_exit_values
from xce.model.load import INDICES

Queue = dict[str, Any]
_YES: Final = ("y", "yes")


class QueueImport:
    """Makes queues.

    Args:
        site: Hosts and groups.
        findings: The report.
        unit: The unit of sizes without one: ``K``, ``M``, ``G`` or ``T``.
    """

    def __init__(self, site: Site, findings: Findings, unit: str) -> None:
        self.queues: list[Queue] = []
        self._site = site
        self._findings = findings
        self._unit = unit
        self._preempts: list[tuple[Section, Queue, str]] = []

    def add(self, section: Section) -> None:
        """Take a queue."""
        name = section.text("QUEUE_NAME")
        if not QUEUE_NAME.fullmatch(name) or name.lower() in RESERVED_QUEUES:
            why = "it cannot be the name of a queue here; name it differently"
            self._findings.add(section, "QUEUE_NAME", Verdict.NONE, why, of=name)
            for key in section.cells:
                if key != "QUEUE_NAME":
                    why = "its queue is not taken over"
                    self._findings.add(section, key, Verdict.NONE, why, of=name)
            return
        queue: Queue = {"name": name}
        self.queues.append(queue)
        self._findings.add(section, "QUEUE_NAME", Verdict.TAKEN, "name", of=name)
        for key in section.cells:
            if key == "QUEUE_NAME":
                continue
            if not section.text(key):
                self._findings.add(section, key, Verdict.TAKEN, "the default", of=name)
                continue
            if key == "PREEMPTION":
                self._preempts.append((section, queue, section.text(key)))
                continue
            take = _TAKE.get(key)
            if take is None:
                reason = find_reason(QUEUE, key)
                self._findings.add(section, key, Verdict.NONE, reason, of=name)
            else:
                verdict, text = take(self, section, queue, section.text(key))
                self._findings.add(section, key, verdict, text, of=name)

    def settle(self, default: str) -> None:
        """Say which queue is the default, and who preempts whom."""
        for queue in self.queues:
            if queue["name"] == default:
                queue["default"] = True
        if self.queues and not any(queue.get("default") for queue in self.queues):
            self.queues[0]["default"] = True
        for section, queue, text in self._preempts:
            self._settle_preemption(section, queue, text)

    def _settle_preemption(self, section: Section, queue: Queue, text: str) -> None:
        mine = queue.get("priority", 1)
        lower = [q["name"] for q in self.queues if q.get("priority", 1) < mine]
        found = re.search(r"PREEMPTIVE\s*(\[([^\]]*)\])?", text)
        names = lower
        if found is not None and found[2]:
            asked = [word.split("+")[0] for word in found[2].split()]
            names = [name for name in asked if name in lower]
        add, of = self._findings.add, str(queue["name"])
        if found is None:
            why = "who may preempt says so in XCE: 'preempt' of the other queues"
            add(section, "PREEMPTION", Verdict.NONE, why, of=of)
        elif not names:
            add(section, "PREEMPTION", Verdict.NONE, "no queue has a lower priority", of=of)
        else:
            queue["preempt"] = names
            queue["preemption"] = "suspend"
            add(section, "PREEMPTION", Verdict.TAKEN, f"preempt: {' '.join(names)}", of=of)

    # Each of these takes one parameter.

    def _priority(self, _: Section, queue: Queue, text: str) -> tuple[Verdict, str]:
        if not text.isdecimal() or int(text) < 1:
            return Verdict.NONE, "a priority is a whole number from 1"
        queue["priority"] = int(text)
        return Verdict.TAKEN, f"priority: {text}"

    def _description(self, _: Section, queue: Queue, text: str) -> tuple[Verdict, str]:
        queue["description"] = " ".join(text.split())[:512]
        return Verdict.TAKEN, "description"

    def _overrun(self, _: Section, queue: Queue, text: str) -> tuple[Verdict, str]:
        return take_span(queue, "overrun", text)

    def _underrun(self, _: Section, queue: Queue, text: str) -> tuple[Verdict, str]:
        return take_span(queue, "underrun", text)

    def _idle(self, _: Section, queue: Queue, text: str) -> tuple[Verdict, str]:
        try:
            milli = round(float(text) * 1000)
        except ValueError:
            milli = 0
        if not 0 < milli <= 1000:
            return Verdict.NONE, "it is no share of 1: expected 0.001 to 1"
        queue["idle"] = f"{milli / 1000:g}"
        return Verdict.TAKEN, f"idle: {queue['idle']}"

    def _run_limit(self, _: Section, queue: Queue, text: str) -> tuple[Verdict, str]:
        words = [word.partition("/")[0] for word in text.split()]
        spans = [minutes_of(word) for word in words]
        if not spans or None in spans or len(spans) > 2:
            return Verdict.NONE, "it is no [default] maximum of [hours:]minutes"
        queue["run_limit"] = f"{spans[-1]}m"
        said = f"run_limit: {spans[-1]}m"
        if len(spans) == 2:
            queue["default_run_limit"] = f"{spans[0]}m"
            said += f", default_run_limit: {spans[0]}m"
        if "/" in text:
            return Verdict.PARTLY, f"{said}; run times are not scaled by a host's speed"
        return Verdict.TAKEN, said

    def _mem_limit(self, _: Section, queue: Queue, text: str) -> tuple[Verdict, str]:
        sizes = [size_of(word, self._unit) for word in text.split()]
        if not sizes or None in sizes or len(sizes) > 2:
            return Verdict.NONE, "it is no [default] maximum of memory"
        queue["mem_limit"] = sizes[-1]
        if len(sizes) == 2:
            return Verdict.PARTLY, f"mem_limit: {sizes[-1]}; there is no default of -M"
        return Verdict.TAKEN, f"mem_limit: {sizes[-1]}"

    def _task_limit(self, _: Section, queue: Queue, text: str) -> tuple[Verdict, str]:
        return take_tasks(queue, text)

    def _exclusive(self, _: Section, queue: Queue, text: str) -> tuple[Verdict, str]:
        if text.lower() in _YES:
            queue["exclusive"] = True
            return Verdict.TAKEN, "exclusive: true"
        if text.upper().startswith("CU"):
            queue["exclusive"] = True
            return Verdict.PARTLY, "exclusive: true; whole hosts, not whole compute units"
        return Verdict.TAKEN, "the default"

    def _interactive(self, _: Section, queue: Queue, text: str) -> tuple[Verdict, str]:
        meant = {"NO": "refuse", "N": "refuse", "ONLY": "only"}.get(text.strip().upper())
        if meant is None:
            return Verdict.TAKEN, "the default"
        queue["interactive"] = meant
        return Verdict.TAKEN, f"interactive: {meant}"

    def _requeue(self, _: Section, queue: Queue, text: str) -> tuple[Verdict, str]:
        return take_exit_values(queue, "requeue_exit_values", text)

    def _success(self, _: Section, queue: Queue, text: str) -> tuple[Verdict, str]:
        return take_exit_values(queue, "success_exit_values", text)

    def _max_requeues(self, _: Section, queue: Queue, text: str) -> tuple[Verdict, str]:
        return take_max_requeues(queue, text)

    def _pre_exec(self, _: Section, queue: Queue, text: str) -> tuple[Verdict, str]:
        return take_hook(queue, "pre_exec", text)

    def _post_exec(self, _: Section, queue: Queue, text: str) -> tuple[Verdict, str]:
        return take_hook(queue, "post_exec", text)

    def _rerunnable(self, _: Section, queue: Queue, text: str) -> tuple[Verdict, str]:
        if text.lower() not in _YES:
            return Verdict.TAKEN, "the default"
        queue["rerunnable"] = True
        return Verdict.TAKEN, "rerunnable: true"

    def _users(self, _: Section, queue: Queue, text: str) -> tuple[Verdict, str]:
        words = list_words(text)
        if "all" in words and not any(word.startswith("~") for word in words):
            return Verdict.TAKEN, "the default: everybody"
        if any(word.startswith("~") for word in words):
            queue["open"] = False
            why = "a queue cannot leave out users: say who may submit in 'users', then open it"
            return Verdict.PARTLY, f"open: false; {why}"
        queue["users"] = self._site.expand_users(words)
        return Verdict.TAKEN, f"users: {' '.join(queue['users'])}"

    def _hosts(self, _: Section, queue: Queue, text: str) -> tuple[Verdict, str]:
        words = list_words(text)
        names = self._site.expand_hosts(words)
        if not names:
            queue["active"] = False
            why = "none of these hosts is known: say where its jobs may run, then activate it"
            return Verdict.PARTLY, f"active: false; {why}"
        ordered = any("+" in word for word in words) or "others" in words
        if len(names) < len(self._site.hosts):
            queue["hosts"] = names
            said = f"hosts: the {len(names)} that are meant"
        else:
            said = "the default: all hosts"
        if ordered:
            return Verdict.PARTLY, f"{said}; which are tried first is up to each job's -m"
        return Verdict.TAKEN, said

    def _fairshare(self, _: Section, queue: Queue, text: str) -> tuple[Verdict, str]:
        queue["policy"] = "fairshare"
        tree, seen = [], set[str]()
        given = parse_shares(text)
        for name, shares in given:
            node = self._share_node(name, shares, seen)
            if node is not None:
                tree.append(node)
        if tree:
            queue["fairshare"] = tree
            said = "policy: fairshare, fairshare: the same shares"
            if "others" in dict(given):
                return Verdict.PARTLY, f"{said}; {EACH_OTHER}"
            return Verdict.TAKEN, said
        return Verdict.TAKEN, "policy: fairshare, all users the same"

    def _share_node(self, word: str, shares: int, seen: set[str]) -> dict[str, Any] | None:
        name = word.rstrip("@/")
        name = "default" if name == "others" else name
        if name in seen:
            return None
        seen.add(name)
        node: dict[str, Any] = {"name": name, "shares": min(shares, 1_000_000)}
        members = self._site.user_groups.get(name)
        if members:
            own = dict(self._site.user_shares.get(name, ()))
            inner = own.get("default", own.get("others", 1))
            nodes = [
                self._share_node(one, own.get(one.rstrip("@/"), inner), seen) for one in members
            ]
            node["members"] = [one for one in nodes if one is not None]
            if not node["members"]:
                del node["members"]
        return node

    def _backfill(self, _: Section, queue: Queue, text: str) -> tuple[Verdict, str]:
        if text.lower() in _YES:
            queue["backfill"] = "easy"
            return Verdict.TAKEN, "backfill: easy"
        return Verdict.TAKEN, "the default"

    def _reserve(self, _: Section, queue: Queue, text: str) -> tuple[Verdict, str]:
        queue.setdefault("backfill", "easy")
        return Verdict.PARTLY, "backfill: easy, whose reservations do not expire"

    def _windows(self, _: Section, queue: Queue, text: str) -> tuple[Verdict, str]:
        try:
            parse_windows(text)
        except TextError as error:
            return Verdict.NONE, error.message
        queue["run_windows"] = " ".join(text.split())
        return Verdict.TAKEN, "run_windows: the same, in the time zone of xce.yaml"


def _load_taker(index: str) -> Callable[[QueueImport, Section, Queue, str], tuple[Verdict, str]]:
    """Return what takes ``r1m = 0.7/2.0``: when jobs start, and when they are suspended."""

    def take(_: QueueImport, __: Section, queue: Queue, text: str) -> tuple[Verdict, str]:
        scheduled, stop = (word.strip() for word in text.partition("/")[::2])
        taken = []
        for key, value in (("load_sched", scheduled), ("load_stop", stop)):
            if re.fullmatch(r"\d{1,9}(\.\d{1,3})?", value):
                queue.setdefault(key, {})[index] = value
                taken.append(f"{key}: {index}: {value}")
        if not taken:
            return Verdict.NONE, f"{text[:60]!r} is no pair of numbers"
        return Verdict.TAKEN, "; ".join(taken)

    return take


def _limit_taker(key: str) -> Callable[[QueueImport, Section, Queue, str], tuple[Verdict, str]]:
    """Return what takes a limit of processes."""

    def take(this: QueueImport, _: Section, queue: Queue, text: str) -> tuple[Verdict, str]:
        unit = this._unit  # noqa: SLF001 - it stands for a method
        return take_process_limit(queue, key, text, unit, has_default=True)

    return take


_TAKE: Final = {
    **{index: _load_taker(index) for index in INDICES},
    **{key: _limit_taker(key) for key in PROCESS_LIMITS},
    "PRIORITY": QueueImport._priority,  # noqa: SLF001 - a table of this class's own methods
    "DESCRIPTION": QueueImport._description,  # noqa: SLF001
    "RUNLIMIT": QueueImport._run_limit,  # noqa: SLF001
    "MEMLIMIT": QueueImport._mem_limit,  # noqa: SLF001
    "TASKLIMIT": QueueImport._task_limit,  # noqa: SLF001
    "PROCLIMIT": QueueImport._task_limit,  # noqa: SLF001
    "EXCLUSIVE": QueueImport._exclusive,  # noqa: SLF001
    "INTERACTIVE": QueueImport._interactive,  # noqa: SLF001
    "REQUEUE_EXIT_VALUES": QueueImport._requeue,  # noqa: SLF001
    "SUCCESS_EXIT_VALUES": QueueImport._success,  # noqa: SLF001
    "MAX_JOB_REQUEUE": QueueImport._max_requeues,  # noqa: SLF001
    "PRE_EXEC": QueueImport._pre_exec,  # noqa: SLF001
    "POST_EXEC": QueueImport._post_exec,  # noqa: SLF001
    "RERUNNABLE": QueueImport._rerunnable,  # noqa: SLF001
    "USERS": QueueImport._users,  # noqa: SLF001
    "HOSTS": QueueImport._hosts,  # noqa: SLF001
    "FAIRSHARE": QueueImport._fairshare,  # noqa: SLF001
    "BACKFILL": QueueImport._backfill,  # noqa: SLF001
    "SLOT_RESERVE": QueueImport._reserve,  # noqa: SLF001
    "RESOURCE_RESERVE": QueueImport._reserve,  # noqa: SLF001
    "RUN_WINDOW": QueueImport._windows,  # noqa: SLF001
    "JOB_OVERRUN": QueueImport._overrun,  # noqa: SLF001
    "JOB_UNDERRUN": QueueImport._underrun,  # noqa: SLF001
    "JOB_IDLE": QueueImport._idle,  # noqa: SLF001
}


def take_span(entry: Queue, key: str, text: str) -> tuple[Verdict, str]:
    """Take minutes into a queue."""
    if not text.isdecimal() or not int(text):
        return Verdict.NONE, "it is no whole number of minutes from 1"
    entry[key] = f"{int(text)}m"
    return Verdict.TAKEN, f"{key}: {int(text)}m"


def take_hook(entry: Queue, key: str, text: str) -> tuple[Verdict, str]:
    """Take a pre- or post-execution command into a queue or a profile."""
    entry[key] = text
    return Verdict.TAKEN, f"{key}: {text}"


def take_tasks(made: dict[str, Any], text: str) -> tuple[Verdict, str]:
    """Take ``[minimum [default]] maximum`` of tasks for a queue or a profile."""
    words = text.split()
    if not all(word.isdecimal() and int(word) > 0 for word in words) or len(words) > 3:
        return Verdict.NONE, "it is no [minimum [default]] maximum"
    made["tasks_max"] = int(words[-1])
    said = f"tasks_max: {words[-1]}"
    if len(words) > 1:
        made["tasks_min"] = int(words[0])
        said += f", tasks_min: {words[0]}"
    if len(words) == 3:
        return Verdict.PARTLY, f"{said}; without -n a job has one task"
    return Verdict.TAKEN, said


def take_max_requeues(entry: Queue, text: str) -> tuple[Verdict, str]:
    """Take how often a job is started anew into a queue or a profile."""
    if not text.isdecimal() or not 1 <= int(text) <= REQUEUES_LIMIT:
        return Verdict.NONE, f"it is no whole number from 1 to {REQUEUES_LIMIT}"
    entry["max_requeues"] = int(text)
    return Verdict.TAKEN, f"max_requeues: {text}"


def take_exit_values(entry: Queue, key: str, text: str) -> tuple[Verdict, str]:
    """Take a list of exit statuses into a queue or a profile."""
    if key == "success_exit_values":
        text = " ".join(word for word in text.split() if word != "0")
        if not text:
            return Verdict.TAKEN, "the default: 0 is success"
    try:
        _, elsewhere = parse_exit_values(text)
    except TextError as error:
        return Verdict.NONE, error.message
    if elsewhere and key != "requeue_exit_values":
        return Verdict.NONE, "EXCLUDE() is for jobs that are started anew"
    entry[key] = " ".join(text.split())
    return Verdict.TAKEN, f"{key}: {entry[key]}"
