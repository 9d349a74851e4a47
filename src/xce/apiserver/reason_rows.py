"""Why a job pends, as REST shows it."""

import msgspec

from xce.model.ids import Micros
from xce.model.reason import Reason, render_lsf, render_plain


class HostReasonRow(msgspec.Struct, frozen=True):
    """One line of the table "why not these hosts"."""

    code: str
    hosts: int
    resource: str
    needed: int
    best: int


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


def render_reason(reason: Reason, now_us: Micros) -> ReasonRow:
    """Return a reason as REST shows it."""
    return ReasonRow(
        code=reason.code,
        text=render_plain(reason, now_us=now_us),
        lsf=render_lsf(reason),
        unsatisfiable=reason.unsatisfiable,
        hosts=tuple(
            HostReasonRow(item.code, item.hosts, item.resource, item.needed, item.best)
            for item in reason.host_reasons
        ),
        needed=reason.needed,
        available=reason.available,
        resource=reason.resource,
    )
