"""The page of LSF's commands and options says what the commands do, and leaves nothing out."""

from pathlib import Path

import pytest
import yaml
from golden_text import check_golden

from xce.cli.lsf.absent import ABSENT
from xce.cli.xce.launchers import each_lsf_command, render_launchers
from xce.cli.xceadmin.lsf_table import (
    command_options,
    main,
    render_page,
    subcommands,
)

ROOT = Path(__file__).parents[2]
LSF = yaml.safe_load((ROOT / "tests" / "data" / "lsf-options.yaml").read_text())
COMMANDS = [name for name in LSF if name not in ("subcommands", "commands")]


def test_the_page_is_the_one_that_the_code_makes(capsys):
    check_golden(ROOT / "docs" / "lsf-commands.md", render_page())
    main()
    assert capsys.readouterr().out == render_page()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_lsf_is_supported_or_refused_by_name(name):
    options = command_options(name)
    there = {*options.known, *options.refused}
    assert [option for option in LSF[name].split() if option not in there] == []


@pytest.mark.parametrize("name", LSF["subcommands"])
def test_every_subcommand_of_lsf_is_supported_or_refused_by_name(name):
    has, refused = subcommands(name)
    there = {*has, *refused}
    assert [word for word in LSF["subcommands"][name].split() if word not in there] == []


def test_every_command_of_lsf_is_there_or_says_that_it_is_absent():
    there = set(render_launchers())
    assert [name for name in (*COMMANDS, *LSF["commands"].split()) if name not in there] == []
    assert set(ABSENT) & set(each_lsf_command()) == set(), "what is built is not absent"


@pytest.mark.parametrize("name", sorted(set(each_lsf_command()) - {"absent"}))
def test_no_option_is_both_supported_and_refused(name):
    options = command_options(name)
    assert set(options.known) & set(options.refused) == set()
