"""Every scenario file: what it expects holds, and its sessions replay from its journal."""

import json
from pathlib import Path

import pytest

from xce.cli.xceadmin.main import main

FILES = sorted(Path(__file__).parent.glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_a_scenario_expects_holds(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["sim", "run", str(path), "-o", "json"])
    told = capsys.readouterr()
    assert status == 0, told.err
    document = json.loads(told.out)
    assert document["expect"], "a scenario without expectations shows nothing"
    assert all(item["ok"] for item in document["expect"])
