"""What a trace tells of known scenarios, against kept texts. ``XCE_GOLDEN=write`` writes them."""

import io
from pathlib import Path

import pytest
from golden_text import check_golden

from xce.cli.xceadmin.main import main
from xce.cli.xcecli.main import execute

FOLDER = Path(__file__).parent / "trace"
SCENARIOS = Path(__file__).parents[1] / "scenarios"
NAMES = (
    "alternatives", "array-limit", "backfill-easy", "compound", "hold-and-release",
    "never-fits", "pool", "preempt-suspend", "preferred-hosts", "run-window", "select",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_the_trace_of_a_scenario_reads_as_it_did(name, tmp_path, capsys):
    words = ["sim", "run", str(SCENARIOS / f"{name}.yaml"), "--trace", str(tmp_path / "t")]
    assert main(words) == 0
    out, err = io.StringIO(), io.StringIO()
    assert execute(["trace", "--dir", str(tmp_path / "t"), "--limit", "100"], {}, out, err) == 0
    assert err.getvalue() == ""
    check_golden(FOLDER / f"{name}.txt", out.getvalue())
