from pathlib import Path

import pytest

from xce.cli.xceadmin import allocations
from xce.cli.xceadmin.main import main
from xce.daemon.paths import open_layout
from xce.journal.batch import make_batch
from xce.journal.codec import FIRST_CRC
from xce.journal.sqlite import SqliteJournal
from xce.state.cluster import ClusterState
from xce.testing.builders import cluster, place, submission, submit


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    controller = cluster()
    submit(controller, submission(), submission())
    place(controller, 1)
    layout = open_layout(tmp_path / "state")
    journal = SqliteJournal(layout.journal)
    journal.append(journal.lead("test"), make_batch(controller.entries, crc_before=FIRST_CRC))
    journal.close()
    return layout.root


def test_a_journal_whose_sums_are_right_is_good(
    state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["journal", "verify", "--allocations", "--dir", str(state_dir)]) == 0
    assert "the sums of 1 that run" in capsys.readouterr().out


def test_what_differs_is_named_with_the_way_out(
    state_dir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def recover_wrongly(*_: object, **__: object) -> tuple[ClusterState, int, int]:
        state, seq, crc = recover(*_, **__)  # type: ignore[arg-type]
        state.hosts.used[0, 0] += 1
        return state, seq, crc

    recover = allocations.recover
    monkeypatch.setattr(allocations, "recover", recover_wrongly)
    assert main(["journal", "verify", "--allocations", "--dir", str(state_dir)]) == 1
    said = capsys.readouterr().out
    assert "1 differ from what runs" in said
    assert "slots on host h1: 2 are given out, attempts hold 1" in said
    assert "xceadmin apply" in said
