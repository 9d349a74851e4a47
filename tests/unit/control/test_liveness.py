"""Who has missed too many beats."""

from xce.control.liveness import Watch

S = 1_000_000


def test_whoever_beats_is_not_silent_until_three_beats_are_missed():
    watch = Watch()
    watch.hear("h1", 0, S)
    for second in range(1, 4):
        assert watch.silent(second * S, S) == []
    assert watch.silent(3 * S + 1, S) == ["h1"]
    watch.note("h1", 3 * S + 2)
    assert watch.silent(4 * S, S) == []


def test_who_never_beat_is_not_watched():
    watch = Watch()
    watch.note("h1", 0)
    assert watch.silent(100 * S, S) == []


def test_whoever_is_forgotten_is_not_silent():
    watch = Watch()
    watch.hear("h1", 0, S)
    watch.forget("h1")
    assert watch.silent(100 * S, S) == []


def test_what_the_controller_slept_through_itself_does_not_count():
    watch = Watch()
    watch.hear("h1", 0, S)
    assert watch.silent(S, S) == []
    assert watch.silent(600 * S, S) == []
    assert watch.silent(601 * S, S) == []
    assert watch.silent(602 * S, S) == ["h1"]


def test_who_was_asked_to_beat_rarely_is_not_silent_when_the_span_gets_shorter():
    watch = Watch()
    watch.hear("h1", 0, 5 * S)
    for second in range(1, 5):
        assert watch.silent(second * S, S) == []
    watch.hear("h1", 5 * S, S)
    for second in range(5, 9):
        assert watch.silent(second * S, S) == []
    assert watch.silent(8 * S + 1, S) == ["h1"]
