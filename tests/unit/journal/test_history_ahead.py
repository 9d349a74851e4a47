"""Many jobs are read at once where each question may cost the way to another machine."""

import pytest
from history_places import only_files

from xce.apiserver.courses import Wanted, tell_page, usage_page
from xce.cli.xceadmin.history import each_usage
from xce.control.controller import Input
from xce.journal.history import HistoryWriter
from xce.journal.history_reader import HistoryReader
from xce.journal.history_search import START, Search
from xce.model.command import Tick
from xce.model.record import LaunchFailed, Requeued
from xce.testing.builders import (
    cluster,
    gang,
    kill,
    place,
    propose,
    report_ended,
    report_started,
    run_job,
    submission,
    submit,
)

EVERYTHING = ((0, 1 << 62),)
STATES = frozenset(("pend", "run", "done", "exit"))
only_databases = pytest.mark.parametrize("store", ["postgres"], indirect=True)


@pytest.fixture
def read(store):
    reader = HistoryReader(store)
    yield reader
    reader.close()


@pytest.fixture
def write():
    """Return what gives a controller a record that none of its commands makes."""

    def do(controller, record):
        controller._take(Input(Tick()), [record], controller.now_us + 1_000)
        controller.step([], controller.now_us + 1_000)

    return do


def keep(store, controller):
    writer = HistoryWriter(store)
    writer.take(controller.entries, crc=7, epoch=3)
    writer.commit()
    writer.close()


def jobs_of_all_kinds(store, write):
    """Store jobs that have gone through different things; return their ids."""
    controller = cluster({"h1": 4, "h2": 4})
    plain = submit(controller, submission(name="plain"))
    run_job(controller, plain)
    requeued = submit(controller, submission(name="requeued"))
    place(controller, requeued)
    report_started(controller, requeued)
    write(controller, Requeued([requeued], [0]))
    place(controller, requeued)
    write(controller, LaunchFailed([requeued], [0], [0], "no space"))
    run_job(controller, requeued, exit_code=4)
    array = submit(controller, submission(elements="1-9:2,20", name="array"))
    place(controller, array, 3, 5)
    report_started(controller, array, 3)
    report_ended(controller, array, 3)
    kill(controller, (array, 7, 20))
    withdrawn = submit(controller, submission(name="withdrawn"))
    kill(controller, withdrawn)
    wide = submit(controller, submission(tasks=4))
    propose(controller, gang(controller, wide, hosts={"h2": 3, "h1": 1}))
    report_started(controller, wide)
    kill(controller, wide)
    report_ended(controller, wide, signal=15, exit_code=143)
    live = submit(controller, submission(name="live"))
    place(controller, live)
    keep(store, controller)
    return [plain, requeued, array, withdrawn, wide, live], controller.now_us


@pytest.mark.parametrize("runs", [EVERYTHING, ((0, 0),), ((2, 3), (5, 5))])
def test_what_is_read_ahead_is_what_is_read_one_by_one(store, read, write, runs):
    jobs, _ = jobs_of_all_kinds(store, write)
    alone = [read.course(job, runs) for job in jobs]
    with read.ahead([*jobs, 77]):
        assert [read.course(job, runs) for job in jobs] == alone
        assert read.course(77) is None
        assert read.job(jobs[0]) is not None
    assert [read.course(job, runs) for job in jobs] == alone


def test_what_was_read_ahead_is_forgotten_also_by_a_question_that_fails(store, read, write):
    jobs, _ = jobs_of_all_kinds(store, write)
    with pytest.raises(ZeroDivisionError), read.ahead(jobs):
        raise ZeroDivisionError
    with HistoryReaderCounted(read) as counted:
        read.course(jobs[0])
    assert counted.count >= 5


class HistoryReaderCounted:
    """Counts what a reader asks its store."""

    def __init__(self, reader):
        reader.job(1)
        self._store = reader._store
        self._rows = self._store.rows
        self.count = 0

    def __enter__(self):
        self._store.rows = self._counted
        return self

    def _counted(self, *words):
        self.count += 1
        return self._rows(*words)

    def __exit__(self, *_):
        self._store.rows = self._rows


PAGES = {
    "usage": lambda read, now_us: usage_page(read, Search(), START, 1_000, {}).rows,
    "courses": lambda read, now_us: (
        tell_page(read, Wanted(Search(user="alice"), STATES), now_us, ()).rows
    ),
    "export": lambda read, now_us: list(each_usage(read, Search())),
}


@pytest.mark.parametrize("page", PAGES)
@only_databases
def test_a_page_costs_the_same_questions_however_many_jobs_it_tells_of(store, read, page):
    controller = cluster({"h1": 4})
    counts, told = [], []
    for count in (3, 30):
        for _ in range(count):
            run_job(controller, submit(controller, submission()))
        writer = HistoryWriter(store)
        writer.take([e for e in controller.entries if e.seq > writer.seq], crc=7, epoch=3)
        writer.commit()
        writer.close()
        read.close()
        with HistoryReaderCounted(read) as counted:
            told.append(len(PAGES[page](read, controller.now_us)))
        counts.append(counted.count)
    assert told == [3, 33]
    assert counts[0] == counts[1] < 15


@only_databases
def test_a_page_of_a_user_is_read_from_the_index_alone(store, read):
    keep(store, cluster())
    search = read.search()
    for way in ("enable_seqscan", "enable_bitmapscan", "enable_indexscan"):
        # An empty table would be read as a whole. Where the index lacks something no way is left.
        read._store.rows(f"SET {way} = off")
    plan = search.explain(Search(user="u"))
    assert plan.count("Index Only Scan using attempts_by_user on attempts") == 2


@only_files
def test_a_file_is_read_job_by_job(store, read, write):
    jobs, _ = jobs_of_all_kinds(store, write)
    with HistoryReaderCounted(read) as counted, read.ahead(jobs):
        assert counted.count == 0
