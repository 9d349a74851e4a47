import msgspec

from xce.apiserver.fields import MEMBERS, RowWriter
from xce.apiserver.rows import Element, Listing, index_runs
from xce.apiserver.shared_half import SHARED_PATHS, Shared, number_s
from xce.model.command import ProposePlan
from xce.model.job import ArraySpec
from xce.model.reason import HostCode, HostReason, Reason, ReasonCode
from xce.testing.builders import array, cluster, plan, submission, submit


def test_every_shared_member_has_its_place_and_its_type():
    assert list(SHARED_PATHS) == [field.name for field in msgspec.structs.fields(Shared)]
    controller = cluster()
    job = controller.job(submit(controller, submission(name="n")))
    found = controller.state.classes[job.cls]
    rendered = RowWriter().shared(controller.state.spec(job), found.key, found.resreq)
    decoded = msgspec.json.decode(b"{" + rendered[1:], type=Shared)
    assert (decoded.name, decoded.named, decoded.queue) == ("n", True, "normal")


def test_a_choice_of_members_gives_just_these_and_the_id():
    controller = cluster()
    job = controller.job(submit(controller))
    for name in MEMBERS:
        writer = RowWriter((name,))
        found = controller.state.classes[job.cls]
        shared = writer.shared(controller.state.spec(job), found.key, found.resreq)
        elements = Listing(controller.state, {}, now_us=0).elements(job)
        (row,) = writer.render(elements, shared)
        wanted = {"jobid", "index"} | ({name} - {"count", "step"})
        assert set(msgspec.json.decode(row)) == wanted


def test_positions_become_runs_of_indices():
    spec = array("1-9:2,20-22,30")
    assert index_runs(spec, 0, 8) == [(1, 5, 2), (20, 3, 1), (30, 1, 1)]
    assert index_runs(spec, 1, 2) == [(3, 2, 2)]
    assert index_runs(spec, 4, 5) == [(9, 1, 2), (20, 1, 1)]
    assert index_runs(None, 0, 0) == [(0, 1, 1)]
    assert index_runs(ArraySpec(((5, 5, 1),)), 0, 0) == [(5, 1, 1)]


def test_a_reason_is_shown_with_its_numbers():
    controller = cluster()
    job_id = submit(controller, submission(tasks=9))
    cls = controller.job(job_id).cls
    reason = Reason(
        ReasonCode.HOSTS,
        (HostReason(HostCode.SLOTS_BUSY, 2, "slots", 9, 4),),
        needed=9,
        available=8,
        unsatisfiable=True,
    )
    controller.tell(ProposePlan(plan(controller, reasons=[(cls, reason)])))
    (element,) = Listing(controller.state, {}, now_us=0).elements(controller.job(job_id))
    assert element.reason.code == "hosts"
    assert element.reason.unsatisfiable
    assert element.reason.hosts[0].code == "slots-busy"
    assert element.reason.lsf == ("Not enough job slot(s): 2 hosts",)
    assert element.reason.text.startswith("unsatisfiable")


def test_spans_are_whole_where_they_can_be():
    assert [number_s(us) for us in (0, 5_000_000, 1_500_000)] == [0, 5, 1.5]
    assert isinstance(number_s(5_000_000), int)


def test_a_row_without_values_is_small():
    assert Element(1, 0, "PEND", 0.0).hosts == ()
