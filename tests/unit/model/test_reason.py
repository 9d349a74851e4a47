"""Pend reasons, rendered in LSF's words and in plain ones."""

from hypothesis import given
from hypothesis import strategies as st

from xce.model.ids import SECOND_US
from xce.model.reason import (
    HostCode,
    HostReason,
    Reason,
    ReasonCode,
    is_candidate,
    render_lsf,
    render_lsf_host,
    render_plain,
)

REASONS = st.builds(
    Reason,
    code=st.sampled_from(ReasonCode),
    host_reasons=st.lists(
        st.builds(
            HostReason,
            code=st.sampled_from(HostCode),
            hosts=st.integers(1, 5),
            resource=st.sampled_from(("slots", "mem")),
            needed=st.integers(0, 9),
            best=st.integers(0, 9),
        ),
        max_size=3,
    ).map(tuple),
    resource=st.sampled_from(("", "tokens")),
    needed=st.integers(0, 9),
    available=st.integers(0, 9),
    at_us=st.integers(0, 10**12),
    unsatisfiable=st.booleans(),
    detail=st.sampled_from(("", "done(1)")),
)


@given(REASONS)
def test_every_reason_can_be_told_in_both_ways(reason):
    lines = render_lsf(reason)
    assert lines
    assert all(line and not line.endswith(";") and "\n" not in line for line in lines)
    text = render_plain(reason, now_us=0)
    assert text
    assert "{" not in text
    assert "\n" not in text


def test_busy_hosts_are_told_with_their_numbers():
    reason = Reason(
        ReasonCode.HOSTS,
        (HostReason(HostCode.SLOTS_BUSY, 3, "slots", 4, 2),),
        needed=4,
        available=2,
    )
    assert render_lsf(reason) == ("Not enough job slot(s): 3 hosts",)
    assert render_plain(reason, now_us=0) == (
        "needs 4 slots, 2 usable now: 3 hosts busy (needs 4 slots, most free on one is 2)"
    )


def test_a_short_resource_is_named():
    reason = Reason(ReasonCode.HOSTS, (HostReason(HostCode.AMOUNT_SHORT, 1, "mem", 500, 100),))
    assert render_lsf(reason) == (
        "Job's requirements for reserving resource (mem) not satisfied: 1 host",
    )
    assert "1 host short of mem (needs 500, best has 100)" in render_plain(reason, now_us=0)


def test_a_begin_time_is_told_as_a_span():
    reason = Reason(ReasonCode.BEGIN_TIME, at_us=90 * SECOND_US)
    assert render_plain(reason, now_us=0) == "its begin time is in 1m 30s"


def test_what_can_never_run_is_said_so():
    reason = Reason(ReasonCode.POOL, resource="tokens", needed=9, available=1, unsatisfiable=True)
    assert render_plain(reason, now_us=0).startswith("unsatisfiable: ")


def test_hosts_that_lsf_has_one_text_for_are_counted_together():
    short = (HostReason(HostCode.SELECT, 2), HostReason(HostCode.TOO_SMALL, 1, "mem", 9, 4))
    assert render_lsf(Reason(ReasonCode.HOSTS, short)) == (
        "Job's resource requirements not satisfied: 3 hosts",
    )


def test_each_host_reason_has_words_of_lsf_and_a_side():
    for code in HostCode:
        assert render_lsf_host(HostReason(code, 1, "mem"))
    sides = {code: is_candidate(HostReason(code, 1)) for code in HostCode}
    for busy in (HostCode.SLOTS_BUSY, HostCode.AMOUNT_SHORT, HostCode.EXCLUSIVE, HostCode.LOAD):
        assert sides[busy]
    for never in (HostCode.SELECT, HostCode.CLOSED, HostCode.UNREACHABLE, HostCode.NOT_ASKED):
        assert not sides[never]
