import pytest

from xce.cli.lsf.bsub import OPTIONS
from xce.cli.lsf.environment import choose_environment, split_items
from xce.cli.lsf.script import directive_lines, parse_directives, split_words, unify_line_ends
from xce.cli.lsf.values import BadValueError


def given(text):
    return parse_directives(text, OPTIONS).given


def test_directives_count_anywhere_in_column_one():
    text = "\n#!/bin/sh\n#BSUB -J a\necho hi\n\n\n#BSUB -n 2 -q long\n"
    assert given(text) == {"-J": ["a"], "-n": ["2"], "-q": ["long"]}


def test_indented_and_commented_directives_do_not_count():
    assert given("#!/bin/sh\n  #BSUB -J a\n##BSUB -n 5\n# BSUB -q x\n#BSUBX -q x\n") == {}


def test_comments_after_directives_are_stripped():
    text = '#BSUB -R "select[type==any]"    # don\'t "care", [really]\n#BSUB -J fxs # name\n#BSUB\n'
    assert given(text) == {"-R": ["select[type==any]"], "-J": ["fxs"]}


def test_a_hash_inside_a_word_or_quotes_is_no_comment():
    assert given("#BSUB -J a#b -o 'x # y'\n") == {"-J": ["a#b"], "-o": ["x # y"]}


def test_a_directive_needs_no_blank_before_its_hyphen():
    assert given("#BSUB-J job7[1-12]  # x\n#BSUB\t-W 60\n") == {"-J": ["job7[1-12]"], "-W": ["60"]}


def test_line_ends_of_dos_and_a_missing_last_one_are_taken():
    assert given("#BSUB -J win\r\n#BSUB -o win.%J") == {"-J": ["win"], "-o": ["win.%J"]}


def test_repeated_options_keep_their_order():
    assert given("#BSUB -env all\n#BSUB -env A=1\n")["-env"] == ["all", "A=1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#!/bin/sh\n#BSUB -J 'a\n", "Line 2 of the script"),
        ("#BSUB -J a b\n", "'b' belongs to no option"),
        ("#BSUB -foo\n", "-foo: there is no such option"),
        ("#BSUB -J\n", "-J: a value is missing"),
        ("#BSUB ls\n", "'ls' belongs to no option"),
        ("#BSUB -Lp text\n", "use rusage"),
    ],
)
def test_a_line_that_cannot_be_read_whole_is_an_error_that_names_it(text, message):
    with pytest.raises(BadValueError) as caught:
        given(text)
    assert message in str(caught.value)
    assert "Line " in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("  a\tb ", ["a", "b"]),
        ("'a b'c\"d e\"", ["a bcd e"]),
        ("''", [""]),
        (r'"a\"b" a\ b "x\y"', ['a"b', "a b", r"x\y"]),
        ("a # b", ["a"]),
        ("$HOME `x`", ["$HOME", "`x`"]),
        ("tail\\", ["tail\\"]),
    ],
)
def test_quotes_group_and_nothing_is_expanded(text, words):
    assert split_words(text) == words


def test_numbers_of_lines_count_from_one():
    assert directive_lines("x\n#BSUB -a\n\n#BSUB-b") == [(2, "#BSUB -a"), (4, "#BSUB-b")]


def test_only_scripts_that_are_crlf_throughout_are_changed():
    assert unify_line_ends("a\r\nb\r\n") == ("a\nb\n", True)
    assert unify_line_ends("a\r\nb\n") == ("a\r\nb\n", False)
    assert unify_line_ends("a") == ("a", False)
    assert unify_line_ends("\ufeff#!/bin/sh\n") == ("#!/bin/sh\n", False)


ENVIRON = {"A": "1", "B": "2", "PATH": "/bin"}


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], ENVIRON),
        (["all"], ENVIRON),
        (["none"], {}),
        (["all, ~A, C=3"], {"B": "2", "PATH": "/bin", "C": "3"}),
        (["all", "C=3", "D=x y"], {**ENVIRON, "C": "3", "D": "x y"}),
        (["none", "C=3"], {"C": "3"}),
        (["A, C=3"], {"A": "1", "C": "3"}),
        (["all,V1,V2"], ENVIRON),
        (["C='a,b', D=\"x,'y\""], {"C": "a,b", "D": "x,'y"}),
        (["C=a=b"], {"C": "a=b"}),
        (["all, LSB_X=KILL_TASKS"], {**ENVIRON, "LSB_X": "KILL_TASKS"}),
        (["A=, B"], {"A": "", "B": "2"}),
    ],
)
def test_variables_are_chosen_and_options_add_up(texts, expected):
    assert choose_environment(ENVIRON, texts) == expected


@pytest.mark.parametrize("text", ["a b", "=x", "C='open"])
def test_items_that_name_no_variable_are_refused(text):
    with pytest.raises(BadValueError, match="Bad environment specification"):
        choose_environment(ENVIRON, [text])


def test_blanks_inside_values_are_kept():
    assert split_items("A=x y , B") == ["A=x y ", "B"]
