"""Which jobs the lines of an idempotency key came to."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from xce.state.key_use import KeyUse

# Commands of one bulk in whatever order they came: each with its lines, of which some were refused.
commands = st.lists(
    st.tuples(st.lists(st.booleans(), min_size=1, max_size=6), st.integers(0, 2)), max_size=6
).flatmap(lambda parts: st.permutations(list(enumerate(parts))))


@given(commands)
def test_every_line_has_the_job_that_was_noted_and_no_other_line_has_one(parts):
    use, lines, next_job = KeyUse(7), {}, 1
    for number, (accepted, others) in parts:
        next_job += others  # somebody else's, between two commands
        jobs = []
        for is_accepted in accepted:
            jobs.append(next_job if is_accepted else 0)
            next_job += is_accepted
        first = 10 * number
        assert not use.has_any(first, len(jobs))
        use.note(first, jobs)
        lines.update(enumerate(jobs, first))
    for line in range(-1, 70):
        assert use.job_of(line) == lines.get(line, 0)
        for count in (1, 3, 12):
            assert use.has_any(line, count) == any(at in lines for at in range(line, line + count))
    assert use.runs == sorted(use.runs)
    stored = msgspec.convert([7, {str(line): job for line, job in lines.items()}], KeyUse,
                             strict=False)  # fmt: skip
    stored.settle()
    assert [stored.job_of(line) for line in range(70)] == [use.job_of(line) for line in range(70)]


def test_a_bulk_whose_jobs_follow_one_another_is_one_run():
    use = KeyUse(7)
    for number in range(50):
        use.note(2_000 * number, range(5 + 2_000 * number, 5 + 2_000 * (number + 1)))
    use.note(100_000, [0] * 2_000)
    assert use.runs == [(0, 5, 100_000), (100_000, 0, 2_000)]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(use), type=KeyUse) == use
