"""The beats of a worker, and what an answer proves."""

from xce.worker.beat import Beat

S = 1_000_000


def test_a_beat_is_due_at_once_and_then_in_every_span() -> None:
    beat = Beat(5 * S, 100 * S)
    assert beat.take(100 * S) == 1
    assert beat.take(104 * S) == 0
    assert beat.next_us() == 105 * S
    assert beat.take(105 * S) == 2


def test_an_answer_proves_contact_when_its_beat_was_sent_not_when_it_came() -> None:
    beat = Beat(5 * S, 0)
    beat.take(0)
    beat.take(5 * S)
    assert beat.answered(2) == 5 * S
    assert beat.answered(1) == 0
    assert beat.answered(7) == 0


def test_three_beats_without_an_answer_are_silence() -> None:
    beat = Beat(5 * S, 0)
    beat.take(10 * S)
    beat.answered(1)
    assert not beat.is_silent(100 * S)
    beat.take(100 * S)
    assert not beat.is_silent(115 * S - 1)
    assert beat.is_silent(115 * S)


def test_a_controller_that_wants_no_beats_gets_none() -> None:
    beat = Beat(0, 0)
    assert beat.take(100 * S) == 0
    assert beat.next_us() == 0
    assert not beat.is_silent(1_000 * S)


def test_another_span_counts_from_the_last_beat() -> None:
    beat = Beat(5 * S, 10 * S)
    beat.take(10 * S)
    assert not beat.ask(0)
    assert not beat.ask(5 * S)
    assert beat.ask(S)
    assert beat.next_us() == 11 * S
    assert beat.take(12 * S) == 2
    assert beat.is_silent(13 * S)
    assert beat.ask(5 * S)
    assert beat.next_us() == 17 * S
    assert not Beat(0, 0).ask(S)
