import pytest
import yaml

from xce.cli.lsf.values import BadValueError
from xce.cli.xcecli.render import Column, paint, render_table, render_yaml
from xce.cli.xcecli.submit import choose_variables, parse_begin, parse_run_limit_s
from xce.cli.xcecli.table import label, span


def test_yaml_says_the_same_as_the_value():
    for value in (
        [], {}, [[]], [1, [2, {"a": None}]], {"a": {}, "b": [], "c": {"d": [1, {"e": "x\ny"}]}},
        {"no": "yes", "1": "2", "~": "~", "x y": "- z", "": ": "}, [{"a": 1, "b": [True]}], "x", 7,
    ):  # fmt: skip
        assert yaml.safe_load(render_yaml(value)) == value


def test_cells_are_cut_except_in_wide_tables_and_in_the_last_column():
    columns = [Column("A", str), Column("B", str, right=True), Column("C", str, wide=True)]
    head, row = render_table(columns, ["x" * 40], wide=False, colour=False)
    assert head == f"A{' ' * 33}{' ' * 39}B"
    assert row == "x" * 31 + "…  " + "x" * 40
    head, row = render_table(columns, ["y"], wide=True, colour=False)
    assert (head, row) == ("A  B  C", "y  y  y")


def test_colours_are_on_known_words_only():
    columns = [Column("STAT", str)]
    assert render_table(columns, ["RUN", "odd"], wide=False, colour=True) == [
        "STAT",
        "\033[32mRUN \033[0m",
        "odd",
    ]
    assert paint("x", "x") == "x"


def test_runs_of_elements_have_one_label():
    assert label({"jobid": 3, "index": 0}) == "3"
    assert label({"jobid": 3, "index": 4}) == "3[4]"
    assert label({"jobid": 3, "index": 4, "count": 3, "step": 1}) == "3[4-6]"
    assert label({"jobid": 3, "index": 4, "count": 3, "step": 2}) == "3[4-8:2]"


def test_spans_and_instants():
    assert [span(s) for s in (0, 59.9, 61, 90_061)] == ["0s", "59s", "1m 1s", "1d 1h"]
    assert [parse_run_limit_s(t) for t in ("90s", "1.5h", "10", "1:30")] == [90, 5400, 600, 5400]
    assert parse_begin("+10m", 1000.0) == 1600.0
    assert parse_begin("2026-01-31T12:00Z", 0) == 1769860800.0
    for text in ("4000d", "9" * 5000 + "s"):
        with pytest.raises(BadValueError, match="longer than any job may run"):
            parse_run_limit_s(text)


def test_variables_are_chosen_by_name():
    environ = {"A": "1", "B": "2"}
    assert choose_variables(environ, []) == environ
    assert choose_variables(environ, ["C=x,y"]) == {"A": "1", "B": "2", "C": "x,y"}
    assert choose_variables(environ, ["none"]) == {}
    assert choose_variables(environ, ["B", "D"]) == {"B": "2"}
    assert choose_variables(environ, ["all", "B=3"]) == {"A": "1", "B": "3"}
