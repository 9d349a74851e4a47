"""Reasons name no job that may not be known of."""

from xce.apiserver.veil import SOMEBODYS, veiled
from xce.model.permission import Actor, Permission
from xce.model.reason import Reason, ReasonCode
from xce.testing.builders import BOB, cluster, submit

RESERVED = ReasonCode.RESERVED


def test_a_job_in_front_is_named_to_those_only_who_may_know_of_it():
    controller = cluster(everyone=("queue:submit",))
    mine, theirs = submit(controller), submit(controller, owner=BOB)
    state = controller.state
    sees = state.rights.filter(Actor("alice"), Permission.JOB_VIEW)
    assert sees is not None
    for detail, shown in (
        (f"{mine}", f"{mine}"),
        (f"{theirs}", SOMEBODYS),
        (f"{theirs}[3]", SOMEBODYS),
        ("99999", SOMEBODYS),
        ("", SOMEBODYS),
    ):
        assert veiled(Reason(RESERVED, detail=detail), state, sees).detail == shown
        assert veiled(Reason(RESERVED, detail=detail), state, None).detail == detail
    other = Reason(ReasonCode.HELD, detail=str(theirs))
    assert veiled(other, state, sees) is other
