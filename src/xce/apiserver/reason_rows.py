"""Why jobs pend, as REST shows it."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from xce.model.ids import Micros
from xce.model.reason import (
    HostReason,
    Reason,
    is_candidate,
    render_lsf,
    render_lsf_host,
    render_plain,
)
from xce.sched.excluded import Excluded


class HostReasonRow(msgspec.Struct, frozen=True):
    """One line of the table "why not these hosts"."""

    code: str
    hosts: int
    resource: str
    needed: int
    best: int
    lsf: str
    """LSF's words for it."""
    candidate: bool
    """Whether these hosts could take a task of it, were what is in use free."""
    role: str
    """The part or alternative that it is about; empty: the whole request."""
    names: tuple[str, ...] = ()
    """Which hosts, as things are now, where that is asked for; then ``hosts`` counts these."""


class ReasonRow(msgspec.Struct, frozen=True):
    """Why a job pends."""

    code: str
    text: str
    lsf: tuple[str, ...]
    unsatisfiable: bool
    hosts: tuple[HostReasonRow, ...]
    needed: int
    available: int
    resource: str
    parts: tuple[HostReasonRow, ...] = ()
    """As ``hosts``, for each part or alternative by itself."""


def each_host_reason(reason: Reason, role: str = "") -> Iterator[tuple[HostReason, str]]:
    """Yield which hosts each filter excludes, with the part or alternative that it is about."""
    for item in reason.host_reasons:
        yield item, role
    for inner in reason.under:
        yield from each_host_reason(inner, f"{role}, {inner.role}" if role else inner.role)


def _host_row(item: HostReason, role: str) -> HostReasonRow:
    return HostReasonRow(
        item.code, item.hosts, item.resource, item.needed, item.best, render_lsf_host(item),
        is_candidate(item), role,
    )  # fmt: skip


def render_reason(reason: Reason, now_us: Micros) -> ReasonRow:
    """Return a reason as REST shows it."""
    return ReasonRow(
        code=reason.code,
        text=render_plain(reason, now_us=now_us),
        lsf=render_lsf(reason),
        unsatisfiable=reason.unsatisfiable,
        hosts=tuple(_host_row(item, "") for item in reason.host_reasons),
        needed=reason.needed,
        available=reason.available,
        resource=reason.resource,
        parts=tuple(_host_row(*one) for one in each_host_reason(reason) if one[1]),
    )


def name_hosts(row: ReasonRow, excluded: Iterable[Excluded], names: Sequence[str]) -> ReasonRow:
    """Return a reason with the names of the hosts that it is about.

    Args:
        row: As it was told.
        excluded: What keeps which hosts from it now.
        names: Of all hosts, by number.
    """
    found: dict[tuple[str, ...], dict[str, None]] = {}
    for one in excluded:
        for key in ((one.role, one.code, one.resource), (one.role, one.code)):
            found.setdefault(key, {}).update((names[host], None) for host in one.hosts)

    def named(item: HostReasonRow) -> HostReasonRow:
        exact = found.get((item.role, item.code, item.resource))
        hosts = exact or found.get((item.role, item.code)) or {}
        return msgspec.structs.replace(item, names=tuple(hosts), hosts=len(hosts) or item.hosts)

    return msgspec.structs.replace(
        row, hosts=tuple(map(named, row.hosts)), parts=tuple(map(named, row.parts))
    )
