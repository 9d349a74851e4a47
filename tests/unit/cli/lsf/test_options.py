import pytest

from xce.cli.lsf import bjobs, bkill, bsub
from xce.cli.lsf.options import FLAG, VALUE, Options, UsageError, parse_options


def line(words, module=bjobs):
    return parse_options(words, module.OPTIONS, until_word=module is bsub)


@pytest.mark.parametrize(
    ("words", "given", "rest"),
    [
        (["-aw"], {"-a": [""], "-w": [""]}, []),
        (["-aJ", "*x*"], {"-a": [""], "-J": ["*x*"]}, []),
        (["-pl"], {"-p": [""], "-l": [""]}, []),
        (["-uall"], {"-u": ["all"]}, []),
        (["-o exit_code", "-noheader", "5"], {"-o": ["exit_code"], "-noheader": [""]}, ["5"]),
        (["5", "-l"], {"-l": [""]}, ["5"]),
        (["-UF", "12[3]"], {"-UF": [""]}, ["12[3]"]),
        (["-u", "a", "-u", "b"], {"-u": ["a", "b"]}, []),
        (["--wait-daemon=5"], {"--wait-daemon": ["5"]}, []),
        (["--", "-l"], {}, ["-l"]),
        (["-awuall"], {"-a": [""], "-w": [""], "-u": ["all"]}, []),
    ],
)
def test_letters_run_together_and_values_follow_in_the_word(words, given, rest):
    parsed = line(words)
    assert (parsed.given, parsed.rest) == (given, rest)


def test_options_of_bsub_end_at_the_first_other_word():
    parsed = line(["-n", "4", "-R", "a", "-R", "b", "echo", "-n", "x  y"], bsub)
    assert parsed.given == {"-n": ["4"], "-R": ["a", "b"]}
    assert parsed.rest == ["echo", "-n", "x  y"]


@pytest.mark.parametrize(
    ("word", "option", "value"),
    [
        ("-n4", "-n", "4"),
        ("-M2000", "-M", "2000"),
        ("-W10:00", "-W", "10:00"),
        ("-We5", "-We", "5"),
        ("-Rspan[hosts=1]", "-R", "span[hosts=1]"),
        ("-Jname[1-3]", "-J", "name[1-3]"),
        ("-q normal", "-q", "normal"),
    ],
)
def test_bsub_takes_numbers_and_brackets_behind_the_letter(word, option, value):
    assert line([word], bsub).given == {option: [value]}


@pytest.mark.parametrize(
    ("words", "module", "text"),
    [
        (["-foo", "bar"], bsub, "-foo: there is no such option"),
        (["-qnormal"], bsub, "-q normal"),
        (["-n"], bsub, "-n: a value is missing"),
        (
            ["-ln_mem", "me"],
            bsub,
            "-ln_mem: this option of LSF is not in XCE; it is of IBM's CSM only",
        ),
        (["-pack", "f"], bsub, "-pack: this option of LSF is not in XCE"),
        (["-IX", "sh"], bsub, "-IX: this option"),
        (["-az"], bjobs, "-az: there is no such option"),
        (["-aps"], bjobs, "-o 'jobid priority'"),
        (["-plan"], bjobs, "-plan: this option"),
        (["-C", "why", "5"], bkill, "-C: this option"),
        (["--verbose"], bjobs, "--verbose: there is no such option"),
    ],
)
def test_what_is_not_there_is_refused_by_name(words, module, text):
    with pytest.raises(UsageError) as caught:
        line(words, module)
    assert text in str(caught.value)


def test_a_lone_hyphen_is_a_word():
    options = Options({"-a": FLAG, "-b": VALUE}, {}, bundled=True)
    assert parse_options(["-", "-b", "-a"], options, until_word=False).rest == ["-"]
    assert parse_options(["-b", "-a"], options, until_word=False).given == {"-b": ["-a"]}
