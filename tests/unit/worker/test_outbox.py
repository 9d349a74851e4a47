"""What a host tells of its attempts when it is asked what they are."""

from host_state import S, ended, launch, running, started
from msgspec.structs import replace

from xce.model.effect import Claim, Identify, Launch, SendSignal, SetSuspended
from xce.model.job import ArraySpec, JobSpec
from xce.model.observation import TOLD_MAX
from xce.model.request import ClassKey, Request
from xce.worker.action import Suspended
from xce.worker.core import HostState
from xce.worker.outbox import TOLD_BYTES_MAX

CLAIM = Claim(
    ClassKey(Request(), "q", "u"), ArraySpec(((1, 9, 1),)), processors=[[[3]], [[5]], [[7]]]
)


def whole(**changed: object) -> Launch:
    """Return a launch of three elements, each with processors of its own."""
    return replace(launch(3, 4, 5), claim=CLAIM, restarted=[4, 5], **changed)


def test_all_is_told_of_one_attempt_and_nothing_of_its_siblings() -> None:
    state = HostState()
    state.take_effects(1, [whole()], 0)
    state.take_news([started(3), started(4)], 10 * S)
    state.take_effects(1, [SendSignal(1, 4, 1, 1, 12), SetSuspended(1, 4, 1, True)], 10 * S)
    state.take_news([Suspended(1, 4, 1, True)], 11 * S)
    state.reports(11 * S)
    state.take_effects(1, [Identify(1, 4, 1), Identify(1, 5, 1)], 12 * S)
    batch = state.reports(14 * S)
    assert batch is not None
    one, other = batch.told
    assert (one.launch.indices, one.launch.attempts, one.launch.restarted) == ([4], [1], [4])
    assert one.launch.claim == replace(CLAIM, processors=[[[5]]])
    assert (one.running, one.age_us, one.shall_stop, one.suspended, one.signals) == (
        True, 4 * S, True, True, 1,
    )  # fmt: skip
    assert (other.index, other.running, other.age_us) == (5, False, 0)
    assert not state.has_reports


def test_what_is_gone_is_said_to_be_gone_and_what_has_ended_is_reported() -> None:
    state = running()
    state.take_effects(1, [Identify(9, 0, 1), Identify(1, 0, 2)], 20 * S)
    batch = state.reports(20 * S)
    assert batch is not None
    assert (batch.gone, batch.told) == (((9, 0, 1), (1, 0, 2)), ())
    state.take_news([ended()], 21 * S)
    state.take_effects(1, [Identify(1, 0, 1)], 21 * S)
    batch = state.reports(21 * S)
    assert batch is not None
    assert (len(batch.ended), batch.told, batch.gone) == (1, (), ())


def test_a_newer_attempt_that_waits_is_told_as_one_that_has_not_begun() -> None:
    state = running()
    state.take_effects(1, [launch(0, attempt=2), Identify(1, 0, 2)], 20 * S)
    batch = state.reports(20 * S)
    assert batch is not None
    (told,) = batch.told
    assert (told.attempt, told.running, told.launch.attempts) == (2, False, [2])


def test_what_is_told_is_cut_into_batches_and_what_is_too_long_is_left_out() -> None:
    state = HostState()
    long = replace(whole(), spec=JobSpec(description="x" * (TOLD_BYTES_MAX // 2)))
    state.take_effects(1, [long, *(Identify(1, index, 1) for index in (3, 4, 5))], 0)
    sizes = []
    while (batch := state.reports(0)) is not None:
        sizes.append(len(batch.told))
    assert sizes == [1, 1, 1]
    state = HostState()
    many = range(1, TOLD_MAX + 6)
    state.take_effects(1, [launch(*many), *(Identify(1, index, 1) for index in many)], 0)
    sizes = []
    while (batch := state.reports(0)) is not None:
        sizes.append(len(batch.told))
    assert sizes == [TOLD_MAX, 5]
    state = HostState()
    too_long = replace(whole(), spec=JobSpec(description="x" * TOLD_BYTES_MAX))
    state.take_effects(1, [too_long, Identify(1, 3, 1)], 0)
    batch = state.reports(0)
    assert batch is not None
    assert (batch.told[0].launch.claim, batch.told[0].launch.spec) == (None, JobSpec())


def test_on_another_connection_nothing_is_told_before_it_is_asked_again() -> None:
    state = running()
    state.take_effects(1, [Identify(1, 0, 1)], 20 * S)
    state.disconnected()
    assert not state.has_reports
