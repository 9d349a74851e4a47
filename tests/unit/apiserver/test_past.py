"""Who may see what of times past: those who may see it today."""

import json

import pytest

from xce.apiserver.past import Past
from xce.apiserver.past_desk import PastRequest
from xce.journal.batch import make_batch
from xce.journal.codec import FIRST_CRC
from xce.journal.history import HistoryWriter
from xce.journal.sqlite import SqliteJournal, open_sqlite_reader
from xce.model.config import ClusterConfig, GrantConfig
from xce.testing.builders import cluster, submit

CLOSED = ClusterConfig(everyone=())
VIEWERS = ClusterConfig(everyone=(), grants=(GrantConfig(role="viewer", groups=("watch",)),))


@pytest.fixture
def past(tmp_path):
    controller = cluster()
    submit(controller)
    journal = SqliteJournal(tmp_path)
    epoch = journal.lead("test")
    journal.append(epoch, make_batch(controller.entries, crc_before=FIRST_CRC))
    journal.close()
    HistoryWriter(tmp_path / "history.db").close()
    reader = open_sqlite_reader(tmp_path)
    yield Past(reader, tmp_path / "history.db", controller.now_us)
    reader.close()


def ask(past, path, user, rules, *, words=None, query=None, groups=()):
    given = PastRequest(path, words or {}, query or {}, user, 1009, 1009, False, groups, rules)
    head, body = past.answer(given)
    return head, json.loads(body)


@pytest.mark.parametrize(
    ("user", "rules", "groups", "is_seen"),
    [
        ("alice", CLOSED, (), True),
        ("bob", ClusterConfig(), (), True),
        ("bob", CLOSED, (), False),
        ("bob", VIEWERS, (), False),
        ("bob", VIEWERS, ("watch",), True),
    ],
)
def test_a_job_of_then_is_seen_by_those_who_may_see_it_now(past, user, rules, groups, is_seen):
    head, answer = ask(past, "/jobs", user, rules, query={"user": "all"}, groups=groups)
    assert (head.status, len(answer["jobs"])) == (200, int(is_seen))
    head, answer = ask(past, "/jobs/{id}", user, rules, words={"id": "1"}, groups=groups)
    assert head.status == (200 if is_seen else 404)
    assert head.denied == ("" if is_seen else "job:view")
    assert head.about == ("" if is_seen else "job 1")
