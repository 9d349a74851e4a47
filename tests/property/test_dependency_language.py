"""Laws of dependency conditions: text and tree agree, and judging is sound."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from xce.model.dependency import COUNTS, EACH, And, Condition, Not, Or, Subject
from xce.model.dependency import Test as Asks
from xce.model.errors import TextError
from xce.model.ranges import contains, from_sorted
from xce.resreq.dependency import (
    Verdict,
    evaluate,
    parse_dependency,
    render_dependency,
    resolve_dependency,
    subjects_of,
)
from xce.resreq.elements import split_elements

BOUNDED = settings(max_examples=200, derandomize=True, deadline=None)

indices = st.one_of(st.just(-1), st.just(EACH), st.integers(1, 2**31 - 1))
# A job's name never holds a bracket, a quote in it cannot be written, and it is not empty.
job_names = st.text(
    st.characters(min_codepoint=32, exclude_characters='"[]\x7f', exclude_categories=("Cs",)),
    min_size=1,
    max_size=12,
)
subjects = st.one_of(
    st.builds(Subject, job=st.integers(1, 2**63 - 1), index=indices),
    st.builds(Subject, index=indices, name=job_names),
)
plain = st.builds(
    lambda test, subject: Condition(test, (subject,)),
    st.sampled_from([test for test in Asks if test not in COUNTS and test is not Asks.EXTERNAL]),
    subjects,
)
numbers = st.builds(
    lambda test, job, op, number: Condition(test, (Subject(job),), op, 0 if op == "*" else number),
    st.sampled_from(sorted(COUNTS)),
    st.integers(1, 2**63 - 1),
    st.sampled_from([">", ">=", "<", "<=", "==", "!=", "*"]),
    st.integers(0, 10_000_000),
)
words = st.builds(
    lambda subject, word: Condition(Asks.EXTERNAL, (subject,), word=word),
    subjects,
    st.from_regex(r"[a-z!(&]{1,8}", fullmatch=True),
)
exits = st.builds(
    lambda subject, op, code: Condition(Asks.EXIT, (subject,), op, code),
    subjects,
    st.sampled_from([">", ">=", "<", "<=", "==", "!="]),
    st.integers(0, 255),
)


def _flat(kind, parts):
    inner = [p for part in parts for p in (part.parts if isinstance(part, kind) else (part,))]
    return kind(tuple(inner))


def _grown(children):
    several = st.lists(children, min_size=2, max_size=4)
    return st.one_of(
        st.builds(Not, children),
        several.map(lambda parts: _flat(And, parts)),
        several.map(lambda parts: _flat(Or, parts)),
    )


trees = st.recursive(st.one_of(plain, exits, numbers, words), _grown, max_leaves=10)


@BOUNDED
@given(trees)
def test_a_tree_is_read_back_from_its_text(tree):
    text = render_dependency(tree)
    assert parse_dependency(text) == tree
    assert render_dependency(parse_dependency(text)) == text


@BOUNDED
@given(trees)
def test_quotes_around_the_whole_text_change_nothing(tree):
    text = render_dependency(tree)
    if '"' not in text:
        assert parse_dependency(f'"{text}"') == tree


numbered = st.recursive(
    st.integers(1, 4).map(lambda job: Condition(Asks.DONE, (Subject(job),))),
    _grown,
    max_leaves=6,
)
answers = st.dictionaries(
    st.integers(1, 4), st.tuples(st.booleans(), st.booleans()), min_size=4, max_size=4
)


def _true(tree, values):
    match tree:
        case Condition(_, subjects):
            return all(values[subject.job] for subject in subjects)
        case Not(part):
            return not _true(part, values)
        case And(parts):
            return all(_true(part, values) for part in parts)
        case Or(parts):
            return any(_true(part, values) for part in parts)


@BOUNDED
@given(numbered, answers)
def test_never_is_said_only_when_no_future_can_make_it_true(tree, now):
    verdict = evaluate(tree, lambda _condition, job, _index: now[job])
    assert (verdict is Verdict.HOLDS) == _true(
        tree, {job: value for job, (value, _) in now.items()}
    )
    futures = [
        [value] if is_final else [False, True]
        for value, is_final in (now[job] for job in range(1, 5))
    ]
    may_hold = any(
        _true(tree, dict(zip(range(1, 5), values, strict=True)))
        for values in itertools.product(*futures)
    )
    if verdict is Verdict.NEVER:
        assert not may_hold


@BOUNDED
@given(numbered)
def test_resolving_ids_changes_nothing_and_finds_every_subject(tree):
    resolved = resolve_dependency(tree, lambda _name: [], lambda _job: True)
    assert resolved == tree
    assert subjects_of(resolved) == tuple(sorted(set(subjects_of(tree))))


mixed = st.recursive(
    st.builds(
        lambda job, index: Condition(Asks.DONE, (Subject(job, index),)),
        st.integers(1, 3),
        st.sampled_from([-1, EACH]),
    ),
    _grown,
    max_leaves=6,
)
facts = st.tuples(st.booleans(), st.booleans())


@BOUNDED
@given(mixed, st.lists(st.tuples(facts, facts, facts), min_size=1, max_size=6), facts)
def test_elements_are_judged_as_one_by_one(tree, rows, whole):
    """``rows``: what is true, and final, of the elements at each place of three arrays."""

    def split(_condition, job, among):
        places = [place for place, row in enumerate(rows) if contains(among, place, place)]
        return tuple(
            from_sorted(place for place in places if rows[place][job - 1][nth]) for nth in (0, 1)
        )

    everything = ((0, len(rows) - 1),)
    holds, never = split_elements(tree, everything, lambda *_: whole, split)
    for place, row in enumerate(rows):
        verdict = evaluate(tree, lambda _, job, index: row[job - 1] if index == EACH else whole)  # noqa: B023 - called at once
        assert contains(holds, place, place) == (verdict is Verdict.HOLDS)
        assert contains(never, place, place) == (verdict is Verdict.NEVER)


JUNK = [
    "done(", "exit(", "ended(", "numdone(", "external(", "foo(", ")", "(", "!", "&&", "||", "&",
    "12", "a", "x*", "[3]", "[*]", "[", "]", ",", ">", ">=", "==", "=", "5", '"',
    '"a b"', " ", "\x00", "é",
]  # fmt: skip
junk = st.one_of(st.text(max_size=40), st.lists(st.sampled_from(JUNK), max_size=25).map("".join))


@settings(max_examples=600, derandomize=True, deadline=None)
@given(junk)
def test_any_text_gives_a_tree_or_a_text_error(text):
    tree, error = None, None
    try:
        tree = parse_dependency(text)
    except TextError as caught:
        error = caught
    if error is None:
        assert parse_dependency(render_dependency(tree)) == tree
    else:
        assert error.message
        assert 0 <= error.column <= len(text) + 1
