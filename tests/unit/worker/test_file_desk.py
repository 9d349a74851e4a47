"""The worker of the host of the submission: a process of the job's user at each file."""

import asyncio
import os
import signal
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace
from other_user import IS_ROOT, NOBODY, skip_unless_reachable

from xce.model.effect import Launch
from xce.model.job import JobSpec, Owner
from xce.model.task import EndFile, ReadFile, TaskFault, WriteFile
from xce.net.message import TaskAsk
from xce.net.task_frame import encode_task_frame
from xce.step.file_codes import (
    BEGIN_AGAIN,
    ELSEWHERE,
    NO_ACCOUNT,
    UNKNOWN,
    UNREADABLE,
    UNWRITABLE,
)
from xce.step.file_copy import place_of
from xce.worker import file_desk
from xce.worker.accounts import Accounts
from xce.worker.file_desk import FileDesk

ME = Owner("me", os.geteuid(), os.getegid())


class Desk:
    """A desk with a job whose local files are in a directory, and what it has said."""

    def __init__(self, directory):
        self.directory = directory
        self.said = {}
        self.desk = FileDesk(
            "here", Accounts(), lambda piece: self.said[piece.id].set_result(piece)
        )
        transfers = tuple(
            (f"{name}.%J.%I", operator, "out/far", place_of(str(directory / name)))
            for name, operator in (("in", ">"), ("back", "<"), ("all", "<<"))
        )
        self.launch = Launch(
            job=7, indices=[3], attempts=[1], owner=ME, queue="q", project="p", cluster="c",
            spec=JobSpec(cwd=str(directory), transfers=transfers), hosts=(("far", 1),), tasks_max=1,
            submit_at_us=0, run_limit_us=0, term_grace_us=0, kill_interval_us=1,
        )  # fmt: skip

    def path(self, name):
        return self.directory / f"{name}.7.3"

    def give(self, order, launch=None):
        number = len(self.said)
        self.said[number] = asyncio.get_running_loop().create_future()
        self.desk.serve(TaskAsk(number, "here", 7, 3, 1, order, launch or self.launch), order)
        return self.said[number]

    async def ask(self, order, launch=None):
        piece = await self.give(order, launch)
        return piece.file if piece.file is not None else piece

    def processes(self):
        return [one._streams.process for one in self.desk._copies.values() if one.is_open]

    async def close(self):
        for name in list(self.desk._copies):
            self.desk._leave(name)
        await asyncio.gather(*self.desk._work)


def on_desk(directory, work):
    async def run():
        desk = Desk(directory)
        try:
            async with asyncio.timeout(60):
                await work(desk)
        finally:
            await desk.close()

    asyncio.run(run())


def read(place=0, transfer=0, name="n"):
    return ReadFile(name, transfer, place, 4)


def write(place, content, transfer=1, *, is_end=False, name="n"):
    return WriteFile(name, transfer, place, content, 0o640, is_end)


def test_a_file_is_read_by_place_and_the_process_goes_with_the_copy(tmp_path):
    async def work(desk):
        desk.path("in").write_bytes(b"abcdef")
        seen = await desk.ask(read())
        assert (seen.code, seen.content, seen.is_over) == (0, b"abcd", False)
        (process,) = desk.processes()
        for _ in range(2):
            seen = await desk.ask(read(4))
            assert (seen.content, seen.is_over) == (b"ef", True)
        await desk.ask(EndFile("n", 0))
        assert await asyncio.to_thread(process.wait, 60) == 0
        assert (await desk.ask(read(4))).code == BEGIN_AGAIN

    on_desk(tmp_path, work)


@pytest.mark.parametrize(("transfer", "name", "twice"), [(1, "back", b"abcd"), (2, "all", b"abcd")])
def test_the_last_piece_may_be_given_again_and_counts_once(tmp_path, transfer, name, twice):
    async def work(desk):
        desk.path(name).write_bytes(b"")
        assert not (await desk.ask(write(0, b"ab", transfer))).is_over
        for _ in range(2):
            assert (await desk.ask(write(2, b"cd", transfer, is_end=True))).is_over
        assert desk.path(name).read_bytes() == twice

    on_desk(tmp_path, work)


def test_what_goes_on_while_the_controller_is_away_is_told_to_who_asks_again(tmp_path):
    async def work(desk):
        first = desk.give(write(0, b"ab", 2, is_end=True))
        await asyncio.sleep(0)
        desk.desk.leave_controller()
        assert (await desk.ask(write(0, b"ab", 2, is_end=True))).is_over
        assert not first.done()
        assert desk.path("all").read_bytes() == b"ab"

    on_desk(tmp_path, work)


def test_a_process_that_is_killed_is_told_as_lost_and_what_it_had_never_was(tmp_path):
    async def work(desk):
        for transfer, code in ((1, BEGIN_AGAIN), (2, UNKNOWN)):
            name = f"n{transfer}"
            await desk.ask(write(0, b"ab", transfer, name=name))
            (process,) = desk.processes()
            os.kill(process.pid, signal.SIGSTOP)
            answer = desk.give(write(2, b"cd", transfer, is_end=True, name=name))
            await asyncio.sleep(0)
            os.kill(process.pid, signal.SIGKILL)
            assert (await answer).file.code == code
            again = await desk.ask(write(0, b"ab", transfer, name=name))
            assert again.code == (UNKNOWN if transfer == 2 else 0)
            await desk.ask(EndFile(name, 0))
        assert list(tmp_path.iterdir()) == []

    on_desk(tmp_path, work)


@pytest.mark.parametrize(
    "said",
    [
        b"rubbish" * 9, b"\0\0\0\4\0\2[]", encode_task_frame({"code": 0}, b"12345"),
        encode_task_frame({"code": "x"}), encode_task_frame({"code": 1 << 70}),
        encode_task_frame({"no": 0}), encode_task_frame({"code": 256, "mode": -1}, b"x"),
    ],
)  # fmt: skip
def test_whatever_the_process_of_a_user_says_the_worker_lives(tmp_path, monkeypatch, said):
    (tmp_path / "said").write_bytes(said)
    monkeypatch.setattr(file_desk, "FILE_COPY", ("/bin/cat", f"{tmp_path}/said", "-u", "--"))

    async def work(desk):
        seen = await desk.ask(read())
        assert seen.code in (0, BEGIN_AGAIN)
        assert (len(seen.content) <= 4, seen.mode <= 0o777) == (True, True)

    on_desk(tmp_path, work)


def test_an_end_in_the_middle_leaves_nothing(tmp_path):
    async def work(desk):
        await desk.ask(write(0, b"ab"))
        (process,) = desk.processes()
        await desk.ask(EndFile("n", 0))
        await asyncio.to_thread(process.wait, 60)
        assert list(tmp_path.iterdir()) == []
        assert (await desk.ask(write(2, b"cd", is_end=True))).code == BEGIN_AGAIN

    on_desk(tmp_path, work)


def test_only_what_the_job_asked_for_is_done_and_only_as_its_user(tmp_path):
    async def work(desk):
        for order in (read(transfer=1), read(transfer=9), read(transfer=-1), write(0, b"", 0)):
            assert (await desk.ask(replace(order, name=f"{order}"))).code == ELSEWHERE
        nobody = replace(desk.launch, owner=Owner("nobody", 4_000_000, 1))
        assert (await desk.ask(read(name="other"), nobody)).code == NO_ACCOUNT
        nul = replace(desk.launch, spec=JobSpec(cwd="/\0", transfers=desk.launch.spec.transfers))
        assert (await desk.ask(read(name="nul"), nul)).code == NO_ACCOUNT

    on_desk(tmp_path, work)


@pytest.mark.skipif(not IS_ROOT, reason="only root acts as others")
def test_the_process_at_a_file_is_the_users():
    skip_unless_reachable()
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        directory = Path(name)
        directory.chmod(0o777)

        async def work(desk):
            desk.path("in").write_bytes(b"secret")
            desk.path("in").chmod(0o600)
            desk.path("all").write_bytes(b"")
            desk.path("all").chmod(0o644)
            theirs = replace(desk.launch, owner=Owner("nobody", NOBODY, NOBODY))
            assert (await desk.ask(read(), theirs)).code == UNREADABLE
            added = write(0, b"x", 2, is_end=True, name="all")
            assert (await desk.ask(added, theirs)).code == UNWRITABLE
            assert (await desk.ask(write(0, b"x", is_end=True, name="back"), theirs)).is_over
            assert desk.path("back").stat().st_uid == NOBODY

        on_desk(directory, work)


@pytest.mark.parametrize("limit", ["ENDS_MAX", "ENDS_OF_ONE_MAX"])
def test_copies_are_few_and_one_that_is_left_alone_is_over(tmp_path, monkeypatch, limit):
    monkeypatch.setattr(file_desk, limit, 1)
    monkeypatch.setattr(file_desk, "IDLE_S", 0.5)

    async def work(desk):
        await desk.ask(write(0, b"ab"))
        (process,) = desk.processes()
        assert (await desk.ask(read(name="other"))).fault is TaskFault.BUSY
        await asyncio.to_thread(process.wait, 60)
        desk.path("in").write_bytes(b"x")
        assert (await desk.ask(read(name="other"))).content == b"x"

    on_desk(tmp_path, work)


def test_nobody_waits_for_a_process_that_its_user_stops(tmp_path, monkeypatch):
    monkeypatch.setattr(file_desk, "_END_S", 600.0)

    async def work(desk):
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        desk.path("in").write_bytes(b"abcdef")
        await desk.ask(read())
        (process,) = desk.processes()
        os.kill(process.pid, signal.SIGSTOP)
        try:
            await desk.ask(EndFile("n", 0))
            await asyncio.wait_for(loop.run_in_executor(None, int), 30)
        finally:
            os.kill(process.pid, signal.SIGCONT)

    on_desk(tmp_path, work)
