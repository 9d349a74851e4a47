import pytest

from xce.daemon.tail import BYTES_MAX, BYTES_OF_JOB, ENTRIES_MAX, Tail

MILLION = 1_000_000


@pytest.mark.parametrize(
    ("tail", "jobs", "is_quiet", "is_long"),
    [
        (Tail(ENTRIES_MAX - 1, BYTES_MAX - 1), 0, False, False),
        (Tail(ENTRIES_MAX, 0), MILLION, False, True),
        (Tail(3, BYTES_MAX), 0, False, True),
        (Tail(3, BYTES_MAX), MILLION, False, False),
        (Tail(3, BYTES_OF_JOB * MILLION), MILLION, False, True),
        (Tail(3, BYTES_MAX // 4), 0, True, True),
        (Tail(3, BYTES_MAX // 4), 0, False, False),
        (Tail(3, BYTES_MAX // 4), MILLION, True, False),
        (Tail(3, BYTES_OF_JOB * MILLION // 4), MILLION, True, True),
        (Tail(0, 0), 0, True, False),
    ],
)
def test_a_tail_is_long_by_its_entries_or_its_bytes(
    tail: Tail, jobs: int, *, is_quiet: bool, is_long: bool
) -> None:
    assert tail.is_long(jobs, is_quiet=is_quiet) is is_long


def test_tails_grow_and_are_covered() -> None:
    tail = Tail(2, 10) + Tail(3, 20)
    assert tail == Tail(5, 30)
    assert tail.without(Tail(2, 10)) == Tail(3, 20)
