"""Dependency conditions: read, shown, resolved, judged."""

import pytest

from xce.model.dependency import EACH, And, Condition, Not, Or, Subject
from xce.model.dependency import Test as Asks
from xce.resreq.dependency import (
    Verdict,
    evaluate,
    parse_dependency,
    render_dependency,
    resolve_dependency,
    subjects_of,
)
from xce.resreq.errors import (
    DependencySyntaxError,
    NotBuiltError,
    UnknownJobError,
)


def done(job=0, index=-1, name=""):
    return Condition(Asks.DONE, (Subject(job, index, name),))


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("12", done(12)),
        ("done(12)", done(12)),
        ("12[3]", done(12, 3)),
        ("prep", done(name="prep")),
        ("prep*", done(name="prep*")),
        ('"9 lives"', done(name="9 lives")),
        ('"12"', done(name="12")),
        ('done("x")', done(name="x")),
        ('done("x[3]")', done(index=3, name="x")),
        ('done("x"[3])', done(index=3, name="x")),
        ("done(x[3])", done(index=3, name="x")),
        ("done(a/b:c.d=e-f+g%h)", done(name="a/b:c.d=e-f+g%h")),
        ("done", done(name="done")),
        ('"done(12)"', done(12)),
        (' "done(1) && ended(x)" ', And((done(1), Condition(Asks.ENDED, (Subject(name="x"),))))),
        ('"a" && done("b")', And((done(name="a"), done(name="b")))),
        ('"my(job)"', done(name="my(job)")),
        ("exit(1)", Condition(Asks.EXIT, (Subject(1),))),
        ("exit(1,5)", Condition(Asks.EXIT, (Subject(1),), "==", 5)),
        ("exit(1, >= 5)", Condition(Asks.EXIT, (Subject(1),), ">=", 5)),
        ("exit(1,!=0)", Condition(Asks.EXIT, (Subject(1),), "!=", 0)),
        ("started(1)", Condition(Asks.STARTED, (Subject(1),))),
        ("post_done(1)", Condition(Asks.POST_DONE, (Subject(1),))),
        ("post_err(1)", Condition(Asks.POST_ERR, (Subject(1),))),
        ("!1", Not(done(1))),
        ("1&&2||3", Or((And((done(1), done(2))), done(3)))),
        ("1&&(2||!(3))", And((done(1), Or((done(2), Not(done(3))))))),
        ("(1&&2)&&3", And((done(1), done(2), done(3)))),
    ],
)
def test_a_condition_is_read_and_shown(text, tree):
    assert parse_dependency(text) == tree
    assert parse_dependency(render_dependency(tree)) == tree


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 1),
        ("done(1", 7),
        ("done()", 6),
        ("done(1) done(2)", 9),
        ("done(1) &", 9),
        ("done(1) &&", 11),
        ("foo(1)", 1),
        ("9abc", 1),
        ("0", 1),
        ("done(99999999999999999999)", 6),
        ("done(1[0])", 8),
        ("done(1[1-3])", 8),
        ("done(1,2)", 7),
        ("exit(1,)", 8),
        ("exit(1,x)", 8),
        ("exit(1,>-1)", 9),
        ("(1", 3),
        ('"', 1),
        ('""', 1),
        ('done("a)', 6),
        ("a,b", 2),
        ("a\x00", 2),
    ],
)
def test_a_wrong_condition_is_refused_at_its_column(text, column):
    with pytest.raises(DependencySyntaxError) as caught:
        parse_dependency(text)
    assert caught.value.column == column
    assert caught.value.lsf == "Dependency condition syntax error"
    assert not isinstance(caught.value, NotBuiltError)


@pytest.mark.parametrize(
    ("text", "tree", "again"),
    [
        ("done(x[*])", done(0, EACH, "x"), "done(x[*])"),
        ('done("x y[*]")', done(0, EACH, "x y"), 'done("x y"[*])'),
        ("12[*]", done(12, EACH), "done(12[*])"),
    ],
)
def test_a_star_stands_for_the_element_of_the_one_that_waits(text, tree, again):
    assert parse_dependency(text) == tree
    assert render_dependency(tree) == again
    assert parse_dependency(again) == tree


def test_a_count_takes_no_star():
    with pytest.raises(DependencySyntaxError) as caught:
        parse_dependency("numdone(12[*], 3)")
    assert caught.value.lsf == "Job array does not exist"


@pytest.mark.parametrize(
    ("text", "test", "op", "code", "word"),
    [
        ("numdone(1, *)", Asks.NUMDONE, "*", 0, ""),
        ("numrun(1, > 3)", Asks.NUMRUN, ">", 3, ""),
        ("numended(1,3)", Asks.NUMENDED, "==", 3, ""),
        ('"numpend(1, <= 10)"', Asks.NUMPEND, "<=", 10, ""),
        ('external(1, "ready")', Asks.EXTERNAL, "", 0, "ready"),
        ("external(1, ready)", Asks.EXTERNAL, "", 0, "ready"),
    ],
)
def test_counts_and_external_status_are_read(text, test, op, code, word):
    assert parse_dependency(text) == Condition(test, (Subject(1),), op, code, word)


@pytest.mark.parametrize(
    "text",
    ["numdone(1)", "numdone(1, )", "numdone(1, > x)", "external(1)", 'external(1, "two words")'],
)
def test_counts_and_external_status_that_say_nothing_are_refused(text):
    with pytest.raises(DependencySyntaxError):
        parse_dependency(text)


@pytest.mark.parametrize("text", ["numdone(a, 1)", "numrun(1[2], 1)"])
def test_counts_are_of_arrays_by_their_ids(text):
    with pytest.raises(DependencySyntaxError) as caught:
        parse_dependency(text)
    assert caught.value.lsf == "Job array does not exist"


def test_depth_and_length_are_bounded():
    assert parse_dependency("(" * 100 + "1" + ")" * 100) == done(1)
    assert len(parse_dependency("&&".join(["1"] * 4000)).parts) == 4000
    for text in ("(" * 9000, "!" * 9000 + "1", "!(" * 4000 + "1"):
        with pytest.raises(DependencySyntaxError, match="100 nested levels"):
            parse_dependency(text)
    with pytest.raises(DependencySyntaxError, match="16384 characters"):
        parse_dependency("1&&" * 10_000)


def test_names_become_all_jobs_that_have_them():
    tree = parse_dependency("done(prep*) && !exit(other[2], 3) && 7")
    jobs = {"prep*": [12, 5], "other": [9]}
    resolved = resolve_dependency(tree, jobs.__getitem__, {7}.__contains__)
    assert resolved == And(
        (
            Condition(Asks.DONE, (Subject(5), Subject(12))),
            Not(Condition(Asks.EXIT, (Subject(9, 2),), "==", 3)),
            done(7),
        )
    )
    assert subjects_of(resolved) == (5, 7, 9, 12)
    assert render_dependency(resolved) == "done(5) && done(12) && !exit(9[2], == 3) && done(7)"
    assert render_dependency(Not(resolved.parts[0])) == "!(done(5) && done(12))"


@pytest.mark.parametrize(("text", "subject"), [("7", Subject(7)), ("x", Subject(name="x"))])
def test_an_unknown_job_is_named(text, subject):
    with pytest.raises(UnknownJobError) as caught:
        resolve_dependency(parse_dependency(text), lambda _: [], lambda _: False)
    assert caught.value.subject == subject
    assert caught.value.lsf == "No matching job found"


NOW = {1: (True, True), 2: (False, True), 3: (True, False), 4: (False, False)}


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("1", Verdict.HOLDS),
        ("2", Verdict.NEVER),
        ("3", Verdict.HOLDS),
        ("4", Verdict.WAITS),
        ("!1", Verdict.NEVER),
        ("!2", Verdict.HOLDS),
        ("!3", Verdict.WAITS),
        ("1 && 4", Verdict.WAITS),
        ("2 && 4", Verdict.NEVER),
        ("4 && 2", Verdict.NEVER),
        ("2 || 4", Verdict.WAITS),
        ("2 || 2", Verdict.NEVER),
        ("1 || 4", Verdict.HOLDS),
        ("!(1 || 4)", Verdict.NEVER),
        ("!(4 && 2) && 3", Verdict.HOLDS),
    ],
)
def test_a_condition_holds_waits_or_never_can(text, verdict):
    tree = parse_dependency(text)
    assert evaluate(tree, lambda _condition, job, _index: NOW[job]) is verdict


def test_several_subjects_must_all_satisfy():
    both = Condition(Asks.EXIT, (Subject(1), Subject(4, 2)), ">", 3)
    asked = []

    def probe(*question):
        asked.append(question)
        return NOW[question[1]]

    assert evaluate(both, probe) is Verdict.WAITS
    assert asked == [(both, 1, -1), (both, 4, 2)]
