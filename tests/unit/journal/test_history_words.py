"""What a question lets through: names, and what its asker may see; alike in both databases."""

import contextlib

import pytest
from msgspec.structs import replace

from xce.control.dependency import matches
from xce.journal.history import HistoryWriter
from xce.journal.history_reader import HistoryReader
from xce.journal.history_search import START, Search
from xce.model.config import QueueConfig
from xce.model.job import Owner
from xce.state.rights import Sight
from xce.testing.builders import cluster, kill, run_job, submission, submit

LAST = (1 << 63) - 1
NAMES = (
    "a", "A", "ab", "a%b", "a_b", "axb", "a\\b", "a[b]", "a?", "ac", "a.b*c", "ä*", "", "'", "100%",
)  # fmt: skip
PATTERNS = (
    "a", "a*", "*", "*b", "a%*", "a_*", "a\\*", "a[*", "a?*", "*%", "ä*", "A*", "*'*", "a*b",
    "[a]*",
)  # fmt: skip
PROJECTS = ("default", "/a", "/a/b", "/ab", "/a/b/c", "b")
SIGHTS = (
    Sight("alice"),
    Sight("nobody"),
    Sight("bob", (("night", ""),)),
    Sight("carol", (("", "/a"),)),
    Sight("carol", (("", "/a/"), ("night", "b"))),
    Sight("carol", (("normal", "/a/b"), ("night", ""))),
    Sight("carol", (("", ""),)),
    Sight("carol", (("", "/"),)),
    Sight("o'brien", (("it's", "?"),)),
)


def fill(store, controller):
    writer = HistoryWriter(store)
    writer.take(controller.entries, crc=1, epoch=1)
    writer.commit()
    writer.close()


def found(search, wanted):
    jobs = search.find_jobs(wanted, 0, 99)
    assert sorted(row.job for row in search.usage(wanted, START, 99)) == jobs
    assert search.sums(wanted).done == len(jobs)
    return jobs


def test_names_are_matched_as_everywhere(store):
    controller = cluster({"h1": 2})
    for name in NAMES:
        run_job(controller, submit(controller, submission(name=name)))
    fill(store, controller)
    reader = HistoryReader(store)
    search = reader.search()
    for pattern in PATTERNS:
        right = [job for job, name in enumerate(NAMES, 1) if matches(name, pattern)]
        assert found(search, Search(name=pattern)) == right, pattern
    reader.close()


@pytest.mark.parametrize("user", ["", "bob"])
def test_what_may_be_seen_is_what_rights_say(store, user):
    queues = (QueueConfig(name="normal", default=True), QueueConfig(name="night"))
    controller = cluster({"h1": 2}, queues=queues)
    jobs = {}
    for number, owner in enumerate(("alice", "bob", "carol"), 1001):
        for queue in ("normal", "night"):
            for project in PROJECTS:
                wanted = replace(submission(project=project), queue=queue)
                job = submit(controller, wanted, owner=Owner(owner, number, number))
                run_job(controller, job)
                jobs[job] = (owner, queue, project)
    fill(store, controller)
    reader = HistoryReader(store)
    search = reader.search()
    for sight in SIGHTS:
        right = [job for job, of in jobs.items() if sight(*of) and user in ("", of[0])]
        assert found(search, Search(sees=sight, user=user)) == right, sight
    reader.close()


def test_no_word_is_too_odd_to_be_asked_for(store):
    HistoryWriter(store).close()
    with contextlib.closing(HistoryReader(store)) as reader:
        search = reader.search()
        for name in ("user", "queue", "name", "project", "host", "group"):
            for word in ("x" * 5000, "a\0b", "*" * 50, "\\*", "%_*", "[a*"):
                asked = Search(**{name: word})
                assert search.usage(asked, START, 9) == search.find_jobs(asked, 0, 9) == []
                assert search.sums(asked).done == 0


def test_no_number_is_too_large_to_be_asked_for(store):
    controller = cluster()
    kill(controller, submit(controller))
    run_job(controller, submit(controller))
    with contextlib.closing(HistoryWriter(store)) as writer:
        writer.take(controller.entries, crc=1, epoch=1)
        writer.commit()
    with contextlib.closing(HistoryReader(store)) as reader:
        search = reader.search()
        for cursor in ((LAST,) * 4, (0, 0, 0, LAST), (1, 1, LAST, 1), (-LAST,) * 4):
            assert len(search.usage(Search(), cursor, 9)) == (0 if cursor[0] == LAST else 2)
        assert search.find_jobs(Search(jobs=(LAST, 1)), 0, LAST) == [1]
        assert reader.job(LAST) is reader.course(LAST, ((0, LAST),)) is None
        assert reader.outcomes([LAST]) == reader.element_outcomes([(LAST, LAST)]) == []
