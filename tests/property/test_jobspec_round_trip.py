"""Whatever a submission says: its jobspec, submitted again, makes the same job."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from round_trip import Bench

LINES = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), max_size=12)
WORDS = st.text("abcXYZ019._-%", min_size=1, max_size=8)
SPANS = st.integers(1, 10**12).map(lambda us: us / 10**6)
CODES = st.lists(st.integers(1, 255), max_size=4)
KIB = st.integers(0, 1 << 40)
MEMBERS = {
    "name": LINES.filter(lambda text: text.strip() and not set(text) & set("[]")),
    "array": st.sampled_from(["1-4", "1-9:2,20%3", "5"]),
    "project": WORDS,
    "queue": st.sampled_from(["normal", "night"]),
    "priority": st.integers(-1000, 1000),
    "hold": st.booleans(),
    "begin_at": st.integers(10**15, 10**17).map(lambda us: us / 10**6),
    "run_limit_s": SPANS,
    "estimate_s": SPANS,
    "mem_limit_kib": st.integers(0, 1 << 40),
    "rerunnable": st.booleans(),
    "cwd_given": LINES,
    "input": LINES,
    "output": LINES,
    "error": LINES,
    "output_append": st.booleans(),
    "error_append": st.booleans(),
    "output_dir": LINES,
    "description": st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20),
    "pre_exec": LINES,
    "post_exec": LINES,
    "requeue_codes": CODES,
    "requeue_elsewhere": CODES,
    "notices": st.lists(st.sampled_from(["start", "done", "exit"]), unique=True),
    "login_shell": st.sampled_from(["", "/bin/sh"]),
    "group": st.sampled_from(["", "/a", "/a/b"]),
    "ends_as_orphan": st.booleans(),
    "exclusive": st.booleans(),
    "hosts": st.sampled_from(["", "h1", "h1+2 h2", "h2 others"]),
    "resreq": st.sampled_from(
        [["rusage[mem=2]"], ["select[mem>1]", "order[slots]"], ["span[hosts=1]"]]
    ),
    "unit_for_limits": st.sampled_from(["", "KB", "MB", "GB", "TB"]),
    "tasks": st.tuples(st.integers(1, 3), st.integers(3, 5)).map(list),
    "limits": st.fixed_dictionaries(
        {},
        optional={
            "cpu_limit_s": SPANS,
            "swap_limit_kib": KIB,
            "process_limit": st.integers(0, 10**6),
            "stack_limit_kib": KIB,
            "core_limit_kib": KIB,
        },
    ),
}
PROGRAMS = st.one_of(
    st.fixed_dictionaries({"command": LINES}),
    st.fixed_dictionaries(
        {"script": st.text(st.characters(codec="ascii", exclude_characters="\0\r"))},
        optional={"script_name": WORDS, "args": st.lists(LINES, max_size=3)},
    ),
).filter(lambda program: (program.get("command") or program.get("script", "")).strip())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.fixed_dictionaries({}, optional=MEMBERS), PROGRAMS)
def test_a_jobspec_makes_the_same_job(members, program):
    before, after, text = Bench().again({**members, **program})
    assert after == before, text
