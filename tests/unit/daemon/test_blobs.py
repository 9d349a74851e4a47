from pathlib import Path

import msgspec
import pytest

from xce.daemon.blobs import UnnamedBlobs, find_unnamed
from xce.journal.history import HistoryWriter
from xce.journal.history_reader import HistoryReader
from xce.journal.history_store import HistoryError
from xce.testing.builders import cluster, run_job, submission, submit

SCRIPT, ENVIRONMENT, INPUT, ORPHAN = (letter * 32 for letter in "abcd")


def kept(path: Path, controller) -> HistoryReader:
    writer = HistoryWriter(path)
    writer.take(controller.entries, crc=1, epoch=1)
    writer.commit()
    writer.close()
    return HistoryReader(path)


def test_what_a_job_names_is_kept_while_it_lives_and_after(tmp_path: Path) -> None:
    controller = cluster({"h1": 4})
    plain = submission()
    spec = msgspec.structs.replace(plain.spec, script=SCRIPT, env=ENVIRONMENT)
    job = submit(controller, msgspec.structs.replace(plain, spec=spec))
    history = kept(tmp_path / "h.db", cluster())
    digests = [SCRIPT, ENVIRONMENT, INPUT, ORPHAN]
    assert find_unnamed(digests, controller.state, history) == [INPUT, ORPHAN]
    run_job(controller, job)
    assert find_unnamed(digests, controller.state, history) == [INPUT, ORPHAN]
    history.close()
    history = kept(tmp_path / "whole.db", controller)
    assert find_unnamed(digests, cluster().state, history) == [INPUT, ORPHAN]
    history.close()


def test_without_a_history_nothing_is_known_to_be_needless(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="no history store"):
        find_unnamed([ORPHAN], cluster().state, HistoryReader(tmp_path / "none.db"))


def test_one_must_be_unnamed_twice_a_good_while_apart_and_all_the_time_between() -> None:
    unnamed = UnnamedBlobs(apart_s=100)
    assert unnamed.note(["a", "b"], 0) == []
    assert unnamed.note(["a", "b"], 99) == []
    assert unnamed.note(["a"], 100) == ["a"]
    assert unnamed.note(["b"], 150) == []
    assert unnamed.note(["b"], 249) == []
    assert unnamed.note(["b"], 250) == ["b"]
    assert unnamed.note([], 300) == []
