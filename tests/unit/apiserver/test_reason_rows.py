"""Why jobs pend, as rows: each host reason with LSF's words and its side."""

from xce.apiserver.advice_rows import table_rows
from xce.apiserver.reason_rows import render_reason
from xce.model.reason import HostCode, HostReason, Reason, ReasonCode

BUSY = HostReason(HostCode.SLOTS_BUSY, 2, "slots", 4, 1)
CLOSED = HostReason(HostCode.CLOSED, 1)


def test_host_reasons_tell_whether_the_hosts_are_candidates():
    row = render_reason(Reason(ReasonCode.HOSTS, (BUSY, CLOSED)), 0)
    found = [(one.code, one.hosts, one.lsf, one.candidate, one.role) for one in row.hosts]
    assert found == [
        ("slots-busy", 2, "Not enough job slot(s)", True, ""),
        ("closed", 1, "Closed by LSF administrator", False, ""),
    ]
    assert row.parts == ()


def test_host_reasons_of_parts_are_told_with_their_roles():
    inner = Reason(ReasonCode.HOSTS, (CLOSED,), role="second")
    first = Reason(ReasonCode.PARTS, (BUSY,), role="part 1", under=(inner,))
    reason = Reason(ReasonCode.ALTERNATIVES, under=(first,))
    row = render_reason(reason, 0)
    assert row.hosts == ()
    assert [(one.role, one.code) for one in row.parts] == [
        ("part 1", "slots-busy"),
        ("part 1, second", "closed"),
    ]
    table = table_rows(reason)
    assert [(one.role, one.lsf) for one in table] == [(one.role, one.lsf) for one in row.parts]
    assert table[0].text == "2 hosts busy (needs 4 slots, most free on one is 1)"
