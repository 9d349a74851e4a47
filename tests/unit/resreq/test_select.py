"""Select programs over columns of hosts."""

import numpy as np
import pytest

from xce.resreq.errors import ResreqError
from xce.resreq.select import compile_order, compile_select


class Columns:
    """Four hosts; h3 lacks most things."""

    count = 4

    def kind(self, name):
        kinds = {"mem": "number", "ncpus": "number", "speed": "number", "gpu": "boolean"}
        return {**kinds, "rack": "string"}.get(name, "")

    def number(self, name):
        values = {
            "mem": ([1000, 2000, 4000, 8000], [1, 1, 1, 1]),
            "ncpus": ([4, 8, 16, 32], [1, 1, 1, 1]),
            "speed": ([0, 2, 3, 9], [1, 1, 1, 0]),
        }[name]
        return np.array(values[0], dtype=np.int64) * 1000, np.array(values[1], dtype=bool)

    def text(self, name):
        codes = {
            "hname": ([0, 1, 2, 3], {"h0": 0, "h1": 1, "h2": 2, "h-3": 3}),
            "type": ([0, 0, 1, -1], {"X86_64": 0, "ARM": 1}),
            "rack": ([5, 6, 5, -1], {"a b": 5, "r7": 6}),
        }[name]
        return np.array(codes[0], dtype=np.int32), codes[1]

    def flag(self, name):
        return np.array([True, False, True, False])


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("", [0, 1, 2, 3]),
        ("1", [0, 1, 2, 3]),
        ("0", []),
        ("mem > 2000", [2, 3]),
        ("mem >= 2000", [1, 2, 3]),
        ("mem < 2000 || mem > 4000", [0, 3]),
        ("2000 == mem", [1]),
        ("mem != 2000", [0, 2, 3]),
        ("mem / ncpus >= 250", [0, 1, 2, 3]),
        ("mem / ncpus > 250", []),
        ("mem - 500 * 2 > 0", [1, 2, 3]),
        ("-mem < -2000", [2, 3]),
        ("speed", [1, 2]),
        ("!speed", [0, 3]),
        ("speed > 1", [1, 2]),
        ("!(speed > 1)", [0, 3]),
        ("speed != 2", [0, 2]),
        ("speed * 0 == 0", [0, 1, 2]),
        ("12 / speed == 4", [2]),
        ("12 / speed > 0", [1, 2]),
        ("defined(speed)", [0, 1, 2]),
        ("defined(rack) && !defined(type) == 0", [0, 1, 2]),
        ("defined(foo)", []),
        ("gpu", [0, 2]),
        ("!gpu", [1, 3]),
        ("gpu == 1", [0, 2]),
        ("(mem > 1000) + gpu == 2", [2]),
        ("hname == h1", [1]),
        ("hname == 'h-3'", [3]),
        ("hname != h1 && hname != h2", [0, 3]),
        ("type == any", [0, 1, 2, 3]),
        ("type == local", [0, 1, 2, 3]),
        ("type != any", []),
        ("type == X86_64", [0, 1]),
        ("type != X86_64", [2]),
        ("type == PPC", []),
        ("type != PPC", [0, 1, 2]),
        ("rack == 'a b'", [0, 2]),
        ("rack == r7", [1]),
        ("foo > 0", []),
        ("foo", []),
        ("!foo", [0, 1, 2, 3]),
        ("mem == 'a'", []),
        ("rack == 1 + 1", []),
    ],
)
def test_the_mask_marks_the_hosts_that_satisfy(text, hosts):
    mask = compile_select(text).mask(Columns())
    assert mask.dtype == np.bool_
    assert mask.shape == (4,)
    assert np.flatnonzero(mask).tolist() == hosts


def test_a_program_names_the_columns_it_reads():
    assert compile_select("mem > 1 && !gpu || defined(x) && hname == h1").names == (
        "gpu", "h1", "hname", "mem", "x",
    )  # fmt: skip
    assert compile_select("").names == ()


@pytest.mark.parametrize("text", ["9999999ZB", "-9999999ZB", "mem * 999999999999999999"])
def test_numbers_beyond_all_measure_do_not_run_over(text):
    whole = f"{text} * 1000000000000 * mem / 7 + {text}"
    sign = -1 if text.startswith("-") else 1
    assert (
        compile_select(f"{whole} {'<' if sign < 0 else '>'} {sign} * 1000000").mask(Columns()).all()
    )


def test_a_wrong_text_is_refused():
    with pytest.raises(ResreqError):
        compile_select("mem >")


def test_order_puts_most_first_unless_reversed():
    assert compile_order("") == ()
    assert compile_order("-slots:mem") == (("slots", False), ("mem", True))
