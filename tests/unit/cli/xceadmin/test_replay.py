import json
from pathlib import Path

import msgspec
import pytest

from xce.cli.xceadmin.main import main
from xce.journal.codec import FIRST_CRC
from xce.journal.recover import read_entries
from xce.journal.sqlite import open_sqlite_reader
from xce.model.record import SessionRan
from xce.sim.scenario_journal import write_journal

SCENARIOS = sorted((Path(__file__).parents[3] / "scenarios").glob("*.yaml"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_every_scenario_replays_identically_from_its_journal(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sim", "run", str(path), "-o", "json", "--journal", str(tmp_path / "j")]) == 0
    capsys.readouterr()
    assert main(["replay", str(tmp_path / "j"), "--fresh", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["identical"]
    assert document["by_decisions"] == 0
    assert main(["sim", "run", str(path), "--journal", str(tmp_path / "j")]) == 2
    assert "there is a journal already" in capsys.readouterr().err


def test_a_difference_is_told_with_entry_class_and_what(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = next(path for path in SCENARIOS if path.stem == "kill")
    assert main(["sim", "run", str(path), "--journal", str(tmp_path / "j")]) == 0
    reader = open_sqlite_reader(tmp_path / "j")
    entries = [entry for batch, _ in read_entries(reader, 0, FIRST_CRC) for entry in batch]
    reader.close()
    for place, entry in enumerate(entries):
        if any(isinstance(record, SessionRan) for record in entry.records):
            kept = tuple(r for r in entry.records if not hasattr(r, "reasons"))
            kept = tuple(
                msgspec.structs.replace(r, digest="x") if isinstance(r, SessionRan) else r
                for r in kept
            )
            entries[place] = msgspec.structs.replace(entry, records=kept)
            break
    write_journal(tmp_path / "k", entries, [])
    capsys.readouterr()
    assert main(["replay", str(tmp_path / "k")]) == 1
    text = capsys.readouterr().out
    assert "DIFFERENT at entry" in text
    assert "reason, class" in text
    assert "recorded: nothing" in text
    assert main(["replay", str(tmp_path / "k"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["difference"]["what"] == "reason"


def test_what_is_no_journal_is_not_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(tmp_path)]) == 3
    assert "there is no journal" in capsys.readouterr().err
