"""Hypothesis strategies for values of the vocabulary: small ones, and the odd corner."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from xce.model.dependency import WHOLE, And, Condition, Dependency, Not, Or, Subject, Test
from xce.model.ids import SECOND_US
from xce.model.job import ArraySpec, JobSpec, Submission
from xce.model.ranges import Ranges, from_sorted
from xce.model.request import Amount, HostChoice, Request


def ranges(most: int = 40) -> SearchStrategy[Ranges]:
    """Return sets of positions in 0..most."""
    return st.sets(st.integers(0, most)).map(lambda found: from_sorted(sorted(found)))


@st.composite
def arrays(draw: st.DrawFn, *, most: int = 30) -> ArraySpec:
    """Return arrays of up to about ``most`` elements, with gaps, steps and limits."""
    runs = []
    last = 0
    for _ in range(draw(st.integers(1, 3))):
        first = last + draw(st.integers(1, 5))
        step = draw(st.integers(1, 4))
        last = (
            first
            + step * draw(st.integers(0, max(0, most // 3 - 1)))
            + draw(st.integers(0, step - 1))
        )
        runs.append((first, last, step))
    return ArraySpec(tuple(runs), draw(st.sampled_from((0, 0, 1, 2, 5))))


@st.composite
def requests(
    draw: st.DrawFn, *, hosts: tuple[str, ...] = (), resources: tuple[str, ...] = ()
) -> Request:
    """Return compiled requests of up to 6 tasks over the given hosts, counters and pools."""
    tasks_min = draw(st.sampled_from((1, 1, 1, 2, 3)))
    tasks_max = tasks_min + draw(st.sampled_from((0, 0, 0, 3)))
    amounts = {
        (name, per): draw(st.integers(1, 3)) if name != "mem" else draw(st.integers(1, 3_000))
        for name in draw(st.sets(st.sampled_from(("mem", *resources)), max_size=2))
        for per in draw(st.sets(st.sampled_from(("task", "host", "job")), min_size=1, max_size=2))
    }
    asked = draw(st.lists(st.sampled_from(hosts), unique=True)) if hosts else []
    return Request(
        tasks_min=tasks_min,
        tasks_max=tasks_max,
        amounts=tuple(
            Amount(
                name,
                value,
                per,
                duration_us=draw(st.sampled_from((0, 0, 0, SECOND_US, 40 * SECOND_US))),
                decay=draw(st.booleans()),
            )
            for (name, per), value in sorted(amounts.items())
        ),
        one_host=draw(st.sampled_from((False, False, True))),
        hosts=tuple(HostChoice(name) for name in asked),
        exclusive=draw(st.sampled_from((False, False, False, True))),
    )


@st.composite
def submissions(
    draw: st.DrawFn,
    *,
    now_us: int = 0,
    jobs: int = 0,
    hosts: tuple[str, ...] = (),
    resources: tuple[str, ...] = (),
) -> Submission:
    """Return jobs whose dependencies name jobs up to ``jobs``."""
    after = ""
    if jobs and draw(st.booleans()):
        test = draw(st.sampled_from(("done", "ended", "exit", "started")))
        mark = draw(st.sampled_from(("", "!")))
        star = draw(st.sampled_from(("", "", "[*]")))
        after = f"{mark}{test}({draw(st.integers(1, jobs))}{star})"
        if draw(st.booleans()):
            glue = draw(st.sampled_from(("&&", "||")))
            after += f" {glue} done({draw(st.integers(1, jobs))})"
    name = draw(st.sampled_from(("", "a", "ab", "b c")))
    begins = draw(st.sampled_from((0, 0, 0, 1, 30)))
    return Submission(
        spec=JobSpec(name=name, command="true", script="blob", dependency=after),
        request=draw(requests(hosts=hosts, resources=resources)),
        array=draw(st.one_of(st.none(), st.none(), arrays())),
        hold=draw(st.sampled_from((False, False, False, True))),
        begin_at_us=now_us + begins * SECOND_US if begins else 0,
        run_limit_us=draw(st.sampled_from((0, 60 * SECOND_US))),
        rerunnable=draw(st.sampled_from((None, True, False))),
    )


def conditions(jobs: int = 5) -> SearchStrategy[Dependency]:
    """Return resolved dependency trees over jobs 1..jobs."""
    subjects = st.builds(
        Subject, st.integers(1, jobs), st.one_of(st.just(WHOLE), st.integers(1, 4))
    )
    leaf = st.builds(
        Condition,
        st.sampled_from(Test),
        st.lists(subjects, min_size=1, max_size=2, unique=True).map(tuple),
    )
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            inner.map(Not),
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: And(tuple(parts))),
            st.lists(inner, min_size=1, max_size=3).map(lambda parts: Or(tuple(parts))),
        ),
        max_leaves=6,
    )
