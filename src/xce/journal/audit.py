"""The audit: what entries tell about users, who did what and who was denied what."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from xce.model import record as r
from xce.model.entry import Entry
from xce.model.group import GroupsDeleted, GroupsSet
from xce.model.host_record import HostsLost, HostsOpened
from xce.model.ids import HostNumber, Micros, Seq
from xce.model.queue_record import QueuesSwitched
from xce.model.record_access import DenialsNoted, LoginBegan, LoginRefreshed, LoginRevoked
from xce.model.record_modify import JobModified
from xce.model.record_post import Posted
from xce.model.record_trust import HostTokenMade, HostTokenUsed, KeyRevoked, KeyTrusted

OF_USERS: Final = frozenset(
    [
        "submit-jobs", "kill-jobs", "signal-jobs", "stop-jobs", "resume-jobs", "move-jobs",
        "requeue-jobs", "force-job", "switch-jobs", "modify-jobs", "post-message", "set-group",
        "delete-groups", "set-hosts-open", "declare-hosts-lost", "set-queues", "apply-config",
        "note-denials", "note-login", "revoke-login", "trust-key", "revoke-keys", "make-host-token",
        "enrol-host",
    ]
)  # fmt: skip
"""Commands that people are behind."""
LISTED_MAX: Final = 10
"""Of more objects the number is told."""


class AuditRow(msgspec.Struct, frozen=True):
    """One thing that somebody did or was denied."""

    seq: Seq
    at: float
    """Seconds since the epoch."""
    user: str
    """Empty: nobody was identified."""
    action: str
    """The command, or of a denial the permission that was missing."""
    about: str
    basis: str
    """On what ground it was allowed; of a denial empty."""
    origin: str
    """Where it came from."""
    result: str
    """``done`` or ``denied``."""
    count: int = 1
    """How often, of denials that are alike."""


def rows_of(entry: Entry, hosts: Sequence[str]) -> Iterator[AuditRow]:
    """Yield what an entry tells; ``hosts`` are the names of hosts by their number."""
    cause = entry.cause
    denials = [record for record in entry.records if isinstance(record, DenialsNoted)]
    for record in denials:
        for row in record.rows:
            at_us = row.first_at_us or entry.at_us
            yield AuditRow(
                entry.seq, _seconds(at_us), row.user, row.permission, row.about, "", row.origin,
                "denied", row.count,
            )  # fmt: skip
    if not denials:
        about = _about(entry, hosts)
        yield AuditRow(
            entry.seq, _seconds(entry.at_us), cause.by, cause.kind, about, cause.basis,
            cause.origin, "done",
        )  # fmt: skip


def _seconds(at_us: Micros) -> float:
    return at_us / 1_000_000


def _about(entry: Entry, hosts: Sequence[str]) -> str:
    jobs: list[str] = []
    others: list[str] = []
    for record in entry.records:
        match record:
            case r.JobSubmitted():
                jobs.append(str(record.job))
            case (
                r.Withdrawn() | r.EndDecided() | r.Held() | r.Unheld() | r.SuspensionAsked()
                | r.SignalAsked()
            ):  # fmt: skip
                jobs += map(_label, record.jobs, record.firsts, record.lasts)
            case JobModified():
                jobs.append(str(record.job))
                others += [f"to queue {record.queue}"] if record.queue else []
                others += [record.changes] if record.changes else []
            case Posted():
                jobs.append(_label(record.job, record.index, record.index))
            case r.JobsMoved():
                jobs += map(str, record.jobs)
            case r.Reopened():
                jobs += map(_label, record.jobs, record.indices, record.indices)
            case HostsOpened():
                word = "opened" if record.is_open else "closed"
                others.append(f"{word} {_listed(_names(record.hosts, hosts))}")
            case HostsLost():
                others.append(f"gave up {_listed(_names(record.hosts, hosts))}")
            case QueuesSwitched():
                others.append(f"{_switched(record)} {_listed(record.queues)}")
            case _:
                others += _told(record)
    return "; ".join([*others, f"jobs {_listed(dict.fromkeys(jobs))}"] if jobs else others)


def _switched(record: QueuesSwitched) -> str:
    """Return what was done to queues."""
    words = []
    if record.is_open is not None:
        words.append("opened" if record.is_open else "closed")
    if record.is_active is not None:
        words.append("activated" if record.is_active else "inactivated")
    return " and ".join(words)


def _names(numbers: Sequence[HostNumber], hosts: Sequence[str]) -> list[str]:
    return [hosts[number] for number in numbers if number < len(hosts)]


def _told(record: r.Record) -> list[str]:
    """Return what a record about configuration, users or components tells; others tell nothing."""
    match record:
        case GroupsSet():
            return [
                f"job group {name}, limit {g.limit}"
                for name, g in zip(record.names, record.groups, strict=True)
            ]
        case GroupsDeleted():
            return [f"deleted job groups {_listed(record.names)}"]
        case r.ConfigApplied():
            return [f"configuration {record.version}"]
        case LoginBegan():
            return [f"login {record.session} by {record.way}"]
        case LoginRefreshed() | LoginRevoked():
            whose = "" if isinstance(record, LoginRefreshed) else f" of {record.user}"
            return [f"login {record.session or 'all'}{whose}"]
        case KeyTrusted():
            return [f"key {record.trusted.key[:16]} of {record.trusted.name}"]
        case KeyRevoked():
            return [f"key {record.revoked.key[:16]}"]
        case HostTokenMade():
            return [f"token {record.made.token} for {record.made.host}"]
        case HostTokenUsed():
            return [f"token {record.token}"]
        case _:
            return []


def _label(job: int, first: int, last: int) -> str:
    if first <= 0 and last <= 0:
        return str(job)
    return f"{job}[{first}]" if first == last else f"{job}[{first}-{last}]"


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    more = len(found) - LISTED_MAX
    return ", ".join(found[:LISTED_MAX]) + (f" and {more} more" if more > 0 else "")
