"""Laws of the requirement language: canonical text is a fixed point, select has a slow twin."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from xce.model.config import ClusterConfig, PoolConfig, ResourceConfig
from xce.model.errors import TextError
from xce.model.units import parse_lsf_minutes, parse_size_kib, parse_span_us, parse_supply_mib
from xce.resreq import ast
from xce.resreq.affinity import parse_affinity
from xce.resreq.array import parse_index_list, parse_job_name, parse_job_ref
from xce.resreq.compile import compile_request, render_request
from xce.resreq.dependency import parse_dependency
from xce.resreq.hosts import parse_hosts
from xce.resreq.merge import merge_requirements
from xce.resreq.parser import parse_requirement, parse_select
from xce.resreq.render import render_expression, render_requirement
from xce.resreq.schema import Schema
from xce.resreq.select import compile_select

BOUNDED = settings(max_examples=200, derandomize=True, deadline=None)
MANY = settings(max_examples=300, derandomize=True, deadline=None)

CONFIG = ClusterConfig(
    resources=(
        ResourceConfig(name="lic", kind="counter"),
        ResourceConfig(name="gpu", kind="boolean"),
        ResourceConfig(name="rack", kind="string"),
        ResourceConfig(name="speed", kind="number"),
    ),
    pools=(PoolConfig(name="seats", total=4),),
)

# --- texts -------------------------------------------------------------------------------------

blank = st.sampled_from(["", " ", "\t", "  "])
numbers = st.from_regex(r"\A([0-9]{1,5}(\.[0-9]{0,3})?|\.[0-9]{1,3})\Z")
sizes = st.tuples(numbers, st.sampled_from(["", "K", "MB", "g", "TiB"])).map("".join)
names = st.sampled_from(
    ["mem", "maxmem", "ncpus", "slots", "speed", "gpu", "rack", "hname", "x_1.b"]
)
literals = st.sampled_from(["'a b'", '"it\'s"', "'h-1'", "any"])
plain_names = st.from_regex(r"\A[a-z_][a-z0-9_.]{0,5}\Z")


def _joined(children):
    operators = st.sampled_from(["||", "&&", "+", "-", "*", "/", "==", "!=", "<", ">=", "="])
    return st.one_of(
        st.tuples(st.just("("), children, blank, operators, blank, children, st.just(")")).map(
            "".join
        ),
        st.tuples(children, st.sampled_from([" && ", "||", " + ", "*"]), children).map("".join),
        st.tuples(st.sampled_from(["!", "-"]), blank, children).map("".join),
    )


expressions = st.recursive(
    st.one_of(sizes, names, literals, names.map("defined({})".format)), _joined, max_leaves=12
)


def _conditions(number):
    """Return texts of conditions that fit their resources; ``number``: texts of literals."""
    counted = st.recursive(
        st.one_of(number, st.sampled_from(["mem", "maxmem", "ncpus", "slots", "speed"])),
        lambda inner: st.one_of(
            st.tuples(st.just("("), inner, st.sampled_from("+-*/"), inner, st.just(")")),
            st.tuples(inner, st.sampled_from([" + ", "-", " * ", "/"]), inner),
            st.tuples(st.just("-"), inner),
        ).map("".join),
        max_leaves=5,
    )
    comparing = st.sampled_from(["<", "<=", ">", ">=", "==", "!=", "="])
    words = st.tuples(
        st.sampled_from(["rack", "hname"]), st.sampled_from(["==", "!=", "="]), literals
    )
    leaves = st.one_of(
        st.tuples(counted, comparing, counted).map("".join),
        words.map("".join),
        st.sampled_from(["gpu", "speed", "defined(speed)", "defined(rack)", "gpu + 1 == 2"]),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(st.just("("), inner, st.sampled_from(["&&", "||"]), inner, st.just(")")),
            st.tuples(inner, st.sampled_from([" && ", " || "]), inner),
            st.tuples(st.just("!("), inner, st.just(")")),
        ).map("".join),
        max_leaves=6,
    )


honoured = st.fixed_dictionaries(
    {},
    optional={
        "select": _conditions(sizes),
        "order": st.sampled_from(["mem", "-slots:speed"]),
        "rusage": st.sampled_from(
            ["mem=1.5G", "lic=1/job:seats=.5", "mem=0:lic=2/host, mem=10/job", "mem=7"]
        ),
        "span": st.sampled_from(["hosts=1", "ptile=4", "hosts=-1"]),
    },
).map(lambda found: " ".join(f"{name}[{text}]" for name, text in found.items()))
honoured_whole = st.fixed_dictionaries(
    {},
    optional={
        "select": _conditions(sizes),
        "order": st.sampled_from(["mem", "-slots:speed", "!mem:cpu"]),
        "rusage": st.sampled_from(
            [
                "mem=1.5G:duration=90s, lic=1/job:duration=2h:decay=1",
                "seats=.5:threshold=2, lic=0:threshold=.0005",
                "mem=(4 2 1):duration=(1 2)/host".removesuffix("/host"),
                "swap=1T/host:tmp=3:duration=5",
                "mem=0:ngpus_physical=2:gmem=4G",
                "mem=1:ngpus_physical=4/host:gtile=2",
                "gpu=2:gtile='!'",
            ]
        ),
        "span": st.sampled_from(
            [
                "hosts=3",
                "ptile='!'",
                "ptile=2,'a b':3,X:1",
                "block=2",
                "stripe",
                "stripe=3",
                "gtile=2",
            ]
        ),
        "same": st.sampled_from(["rack", "type:model:rack"]),
        "cu": st.sampled_from(["type=rack:maxcus=2", "excl:maxwait=90s", "balance", "pref=config"]),
        "affinity": st.sampled_from(["core", "thread(2,same=mcm)*3:membind=localonly"]),
    },
).map(lambda found: " ".join(f"{name}[{text}]" for name, text in found.items()))
honoured_parts = st.lists(
    st.tuples(
        st.integers(1, 9), st.sampled_from(["", "", "a: ", "name=b_1: "]), honoured_whole
    ).filter(lambda part: "balance" not in part[2] and "excl" not in part[2]),
    min_size=1,
    max_size=3,
    unique_by=lambda part: part[1] or part,
).map(lambda found: " + ".join(f"{count}*{{{name}{text}}}" for count, name, text in found))
honoured_choices = st.lists(
    st.tuples(st.one_of(honoured_whole, honoured_parts), st.integers(0, 3)), min_size=2, max_size=3
).map(
    lambda found: " || ".join(
        f"{{{text}}}@{delay}"
        for (text, _), delay in zip(found, sorted(delay for _, delay in found), strict=True)
    )
)
orders = st.lists(st.tuples(st.sampled_from(["", "-", "!"]), plain_names).map("".join), min_size=1)
items = st.tuples(
    plain_names, st.just("="), sizes, st.sampled_from(["", "/job", "/host", "/task"])
).map("".join)
extras = st.sampled_from(["", ":duration=90", ":duration=3h:decay=1", ":threshold=.50"])
parts = st.tuples(st.lists(items, min_size=1, max_size=3).map(":".join), extras).map("".join)
rusages = st.lists(
    st.lists(parts, min_size=1, max_size=3).map(", ".join), min_size=1, max_size=2
).map(" || ".join)
sections = st.fixed_dictionaries(
    {},
    optional={
        "select": expressions,
        "order": orders.map(":".join),
        "rusage": rusages,
        "span": st.sampled_from(["hosts=1", "ptile=07", "ptile='!',HP:2", "block=2", "stripe"]),
        "same": st.lists(plain_names, min_size=1, max_size=3).map(":".join),
        "cu": st.sampled_from(["excl:type=sw", "pref=bestfit:maxcus=3", "balance"]),
        "affinity": st.sampled_from(["core", "mcm(2,same=cpu)*3:membind=localonly"]),
    },
)
simples = sections.map(lambda found: " ".join(f"{name}[{text}]" for name, text in found.items()))
compounds = st.lists(st.tuples(st.integers(1, 99), simples), min_size=1, max_size=3).map(
    lambda found: " + ".join(f"{count}*{{{text}}}" for count, text in found)
)
alternatives = st.lists(st.one_of(simples, compounds), min_size=2, max_size=3).map(
    lambda found: "||".join(f"{{{text}}}" for text in found)
)
requirements = st.one_of(simples, compounds, alternatives)


def _outcome(parse, text):
    """Return the value and no error, or no value and the error."""
    try:
        return parse(text), None
    except TextError as error:
        return None, error


def _tree(text):
    """Return the tree, or None where the text chains comparisons, which is refused."""
    tree, error = _outcome(parse_requirement, text)
    assert error is None or "do not chain" in error.message, error
    return tree


@BOUNDED
@given(requirements)
def test_canonical_text_is_a_fixed_point(text):
    tree = _tree(text)
    if tree is not None:
        canonical = render_requirement(tree)
        assert parse_requirement(canonical) == tree
        assert render_requirement(parse_requirement(canonical)) == canonical


# --- select against a slow twin ----------------------------------------------------------------

LIMIT = 1 << 60


class Columns:
    """Hosts as rows of plain values; None: the host lacks it."""

    kinds = dict.fromkeys(("mem", "maxmem", "ncpus", "slots", "speed"), "number") | {
        "gpu": "boolean",
        "rack": "string",
    }

    def __init__(self, rows):
        self.rows = rows
        self.count = len(rows)

    def kind(self, name):
        return self.kinds.get(name, "")

    def number(self, name):
        column = [row[name] for row in self.rows]
        return (
            np.array([value or 0 for value in column], dtype=np.int64),
            np.array([value is not None for value in column], dtype=bool),
        )

    def text(self, name):
        codes = {text: code for code, text in enumerate(("any", "a b", "it's", "h-1", "mem"))}
        column = [codes.get(row[name], -1) for row in self.rows]
        return np.array(column, dtype=np.int32), codes

    def flag(self, name):
        return np.array([bool(row[name]) for row in self.rows], dtype=bool)


def _clip(value):
    return max(-LIMIT, min(LIMIT, value))


def _cut(numerator, denominator):
    whole = abs(numerator) // abs(denominator)
    return whole if (numerator < 0) == (denominator < 0) else -whole


class Twin:
    """Evaluates an expression for one host, one step at a time, in plain integers."""

    def __init__(self, row):
        self.row = row

    def true(self, node):
        match node:
            case ast.And(parts):
                return all(self.true(part) for part in parts)
            case ast.Or(parts):
                return any(self.true(part) for part in parts)
            case ast.Not(part):
                return not self.true(part)
            case ast.Compare(op, left, right):
                return self.compared(op, left, right)
            case ast.Defined(name):
                value = self.row.get(name)
                return value is not None and (name != "gpu" or value)
            case _:
                value = self.number(node)
                return value is not None and value != 0

    def compared(self, op, left, right):
        if isinstance(left, ast.Name) and left.name in ("rack", "hname"):
            literal = getattr(right, "name", getattr(right, "value", None))
            value = self.row.get(left.name)
            if literal is None or value is None or isinstance(right, ast.Defined):
                return False
            return (value == literal) == (op == "==")
        a, b = self.number(left), self.number(right)
        if a is None or b is None:
            return False
        return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b, "==": a == b, "!=": a != b}[op]

    def number(self, node):
        match node:
            case ast.Number(text):
                whole, _, fraction = text.partition(".")
                return int(whole + fraction.ljust(3, "0")[:3])
            case ast.Name(name):
                value = self.row.get(name)
                if name == "gpu":
                    return 1000 if value else 0
                return None if isinstance(value, str) else value
            case ast.Negative(part):
                value = self.number(part)
                return None if value is None else -value
            case ast.Chain(first, rest):
                value = self.number(first)
                for op, part in rest:
                    value = self.step(op, value, self.number(part))
                return value
            case ast.Text():
                return None
            case _:
                return 1000 if self.true(node) else 0

    def step(self, op, a, b):
        if a is None or b is None:
            return None
        if op == "/":
            return None if b == 0 else _clip(_cut(a * 1000, b))
        return _clip({"+": a + b, "-": a - b, "*": _cut(a * b, 1000)}[op])


milli = st.one_of(st.none(), st.integers(-5, 20).map(lambda n: n * 500), st.integers(0, 10**12))
rows = st.fixed_dictionaries(
    {
        **dict.fromkeys(("mem", "maxmem", "ncpus", "slots", "speed"), milli),
        "gpu": st.booleans(),
        "rack": st.sampled_from([None, "any", "a b", "it's", "mem"]),
        "hname": st.sampled_from(["any", "h-1"]),
    }
)


@MANY
@given(_conditions(numbers), st.lists(rows, min_size=1, max_size=5))
def test_select_over_columns_agrees_with_a_host_by_host_twin(text, hosts):
    tree = _tree(f"select[{text}]")
    assert tree is not None
    mask = compile_select(render_expression(tree.select)).mask(Columns(hosts))
    assert mask.tolist() == [bool(Twin(row).true(tree.select)) for row in hosts]


# --- compiled requests -------------------------------------------------------------------------


@BOUNDED
@given(st.lists(honoured, max_size=2), st.sampled_from(["KB", "MB", "GB", "TB", "classic"]))
def test_what_compiles_is_shown_in_a_text_that_compiles_to_the_same(texts, unit):
    request, error = _outcome(
        lambda given: compile_request(given, config=CONFIG, tasks=(1, 4), unit=unit), texts
    )
    if error is not None:
        words = "twice", "multiplied by", "too large", "span[gtile]"
        assert any(word in error.message for word in words)
        return
    again = compile_request([render_request(request)], config=CONFIG, tasks=(1, 4))
    expected = request if request.select else replace(request, select="type == any")
    assert again == expected
    if request.select:
        assert render_expression(parse_select(request.select)) == request.select
        empty = dict.fromkeys(Columns.kinds) | {"hname": "h-1", "type": None}
        assert compile_select(request.select).mask(Columns([empty])).shape == (1,)


@BOUNDED
@given(
    st.one_of(honoured_whole, honoured_parts, honoured_choices), st.sampled_from(["MB", "GB", "KB"])
)
def test_the_whole_language_compiles_and_is_shown_in_a_text_of_the_same_value(text, unit):
    request, error = _outcome(
        lambda given: compile_request([given], config=CONFIG, unit=unit), text
    )
    if error is not None:
        words = "multiplied by", "too large", "16384", "span[gtile]"
        assert any(word in error.message for word in words)
        return
    again = compile_request([render_request(request)], config=CONFIG)
    is_bare = not (request.select or request.parts or request.alternatives)
    assert again == (replace(request, select="type == any") if is_bare else request)
    tree = merge_requirements([text], Schema(CONFIG), unit)
    canonical = render_requirement(tree)
    assert render_requirement(merge_requirements([canonical], Schema(CONFIG), "MB")) == canonical
    assert compile_request([canonical], config=CONFIG) == request


SIMPLE_SELECTS = st.sampled_from(
    ["mem > 1", "mem > 2GB && ncpus", "rack == any || gpu", "slots*2 - 1 > mem/maxmem", "type==any"]
)


@BOUNDED
@given(st.lists(SIMPLE_SELECTS, min_size=1, max_size=4), st.sampled_from(["KB", "MB", "GB"]))
def test_select_texts_given_apart_mean_the_same_as_joined(texts, unit):
    apart = compile_request(texts, config=CONFIG, tasks=(1, 1), unit=unit)
    joined = compile_request(
        [" && ".join(f"({text})" for text in texts)], config=CONFIG, tasks=(1, 1), unit=unit
    )
    assert apart == joined


# --- arrays ------------------------------------------------------------------------------------

ranges = st.tuples(st.integers(1, 60), st.integers(0, 60), st.integers(1, 9))


@MANY
@given(st.lists(ranges, min_size=1, max_size=6))
def test_an_index_list_keeps_every_index_once_in_runs_that_stand_apart(found):
    text = ",".join(f"{first}-{first + size}:{step}" for first, size, step in found)
    expected = {i for first, size, step in found for i in range(first, first + size + 1, step)}
    _, spec, _ = parse_job_name(f"n[{text}]", max_size=200)
    indices = [i for first, last, step in spec.runs for i in range(first, last + 1, step)]
    assert indices == sorted(expected)
    assert spec.count == len(expected)
    for (_, last, _), (first, _, _) in zip(spec.runs, spec.runs[1:], strict=False):
        assert last < first
    for first, last, step in spec.runs:
        assert (last - first) % step == 0
    runs = parse_index_list(text)
    assert [i for first, last in runs for i in range(first, last + 1)] == indices


# --- junk --------------------------------------------------------------------------------------

JUNK = [
    "select[", "order[", "rusage[", "span[", "same[", "cu[", "affinity[", "]", "{", "}", "2*{",
    "||", "&&", "!", "(", ")", "mem", "=", "==", ">", "1", "-1", ".5", "GB", "'", '"', "/job", ":",
    ",", "@4", "+", "*", "ptile", "hosts", "duration", "core", "defined(", " ", "\x00", "é", "%",
    "[1-3:2]", "others", "a", "٣", "name=", "a: ", "threshold", "swp", "gmodel=x", "cu", "excl",
    "rusage[mem=", "ptile='!'", "same=", "core(", "decay=1", "lic",
]  # fmt: skip
junk = st.one_of(st.text(max_size=40), st.lists(st.sampled_from(JUNK), max_size=25).map("".join))


@settings(max_examples=600, derandomize=True, deadline=None)
@given(junk)
def test_any_text_gives_a_value_or_a_text_error(text):
    parsers = (
        parse_requirement,
        parse_select,
        parse_hosts,
        parse_index_list,
        parse_job_ref,
        lambda given: parse_job_name(given, max_size=1000),
        parse_affinity,
        parse_dependency,
        parse_size_kib,
        parse_supply_mib,
        parse_lsf_minutes,
        parse_span_us,
        lambda given: compile_request([given], config=CONFIG, tasks=(1, 1)),
        lambda given: compile_request([given], config=CONFIG, unit="GB"),
        lambda given: merge_requirements([given], Schema(CONFIG, is_open=True), "KB"),
        compile_select,
    )
    for parse in parsers:
        _, error = _outcome(parse, text)
        if error is not None:
            assert error.message
            assert 0 <= error.column <= len(text) + 1
