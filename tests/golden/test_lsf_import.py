"""Two configurations of LSF, imported: the files that come out, and what the report says."""

from pathlib import Path

import pytest
import yaml
from golden_text import check_golden

from xce.cli.xceadmin.lsf.command import Import, load_lsf, run_import
from xce.cli.xceadmin.lsf.files import parse_sections, split_cells, strip_comment
from xce.cli.xceadmin.main import main
from xce.daemon.config_directory import load_config

SITES = Path(__file__).parents[1] / "data" / "lsf"
FOLDER = Path(__file__).parent / "import"


@pytest.mark.parametrize("site", ["workgroup", "campus"])
def test_a_site_is_imported_with_a_line_for_every_parameter(site, tmp_path, capsys):
    target = tmp_path / "config"
    assert run_import(SITES / site, target) == 0
    assert "no problems found" in capsys.readouterr().out
    report = (tmp_path / "config-import-report.txt").read_text()
    check_golden(FOLDER / f"{site}-report.txt", report)
    files = "".join(f"# {p.name}\n{p.read_text()}\n" for p in sorted(target.iterdir()))
    check_golden(FOLDER / f"{site}-config.yaml", files)
    config = load_config(target)
    assert config.cluster_name == {"workgroup": "group1", "campus": "campus"}[site]
    assert main(["check", str(target)]) == 0
    assert run_import(SITES / site, target) == 2


@pytest.mark.parametrize("site", ["workgroup", "campus"])
def test_no_parameter_of_a_site_is_left_out_of_the_report(site):
    texts = load_lsf(SITES / site)
    work = Import(texts)
    work.run()
    told = {(one.file, one.line) for one in work.findings.lines}
    for file, text in texts.items():
        if file == "lsf.conf" or file.endswith(".include"):
            continue
        sections, _ = parse_sections(file, text, texts.get)
        for section in sections:
            for cell in section.cells.values():
                meant = not cell.is_default and (file, cell.line) not in told
                assert not meant or section.name in ("User", "Host"), (file, cell)


def test_what_is_no_configuration_is_refused(tmp_path):
    assert run_import(tmp_path, tmp_path / "out") == 3
    assert not (tmp_path / "out").exists()


def test_comments_cells_and_broken_sections_are_read_as_lsf_does():
    assert strip_comment("A = 1 # x") == "A = 1"
    assert strip_comment('A = "a # b" # c') == 'A = "a # b"'
    assert strip_comment("A = it's # c") == "A = it's"
    assert strip_comment("a#b") == "a#b"
    assert split_cells('h1 (a b) () - [x, [y]] "q r"') == [
        "h1",
        "(a b)",
        "()",
        "-",
        "[x, [y]]",
        "q r",
    ]
    text = "stray\nBegin A\nX Y\n1\nEnd A\nBegin B\nBegin C\nK = \\\n v\n"
    found, odd = parse_sections("f", text)
    assert [(s.name, {k: c.text for k, c in s.cells.items()}) for s in found] == [("A", {"X": "1"})]
    assert [one.text for one in odd] == [
        "'stray' stands outside of a section",
        "Begin C has no End",
    ]


def test_shares_of_others_and_a_success_of_zero_are_taken_for_what_they_mean():
    texts = load_lsf(SITES / "workgroup")
    texts["lsb.users"] = (
        "Begin UserGroup\nGROUP_NAME GROUP_MEMBER USER_SHARES\n"
        "chip (ann bob cid) ([ann, 4] [others, 10])\nEnd UserGroup\n"
    )
    texts["lsb.queues"] = (
        "Begin Queue\nQUEUE_NAME = normal\nSUCCESS_EXIT_VALUES = 0\n"
        "FAIRSHARE = USER_SHARES[[chip@, 60] [others, 7]]\nEnd Queue\n"
    )
    texts["lsb.applications"] = (
        "Begin Application\nNAME = a\nSUCCESS_EXIT_VALUES = 0 2\nEnd Application\n"
    )
    work = Import(texts)
    files = {name: yaml.safe_load(text) for name, text in work.run().items()}
    shares = [(one["name"], one["shares"]) for one in files["queues.yaml"][0]["fairshare"]]
    inner = [one["shares"] for one in files["queues.yaml"][0]["fairshare"][0]["members"]]
    assert shares == [("chip", 60), ("default", 7)]
    assert inner == [4, 10, 10]
    report = [line for line in work.findings.render().splitlines() if "SHARE" in line]
    assert [line.endswith("each of the others has them, not all together") for line in report] == [
        True,
        True,
    ]
    assert "success_exit_values" not in files["queues.yaml"][0]
    assert files["applications.yaml"] == [{"name": "a", "success_exit_values": "2"}]
