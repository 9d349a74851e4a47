"""A step that copies a file, and the worker of its host, over their socket."""

import asyncio
import gc
import logging
import os
import socket

import pytest

from xce.client.file_copy import CopyError, open_door
from xce.model.task import (
    PIECE_MAX,
    EndFile,
    FileSeen,
    ReadFile,
    StartTask,
    TaskFault,
    TaskSeen,
    WriteFile,
)
from xce.net.message import TaskPiece
from xce.net.task_frame import encode_task_frame
from xce.step.file_codes import AWAY, ELSEWHERE
from xce.worker.launch_desk import LaunchDesk, LaunchDoor

KEY = (7, 3, 1)
ME = os.geteuid()


class Far:
    """The way to the other host: answers as planned, and keeps what was asked."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        self.has_end = asyncio.Event()

    async def ask(self, key, host, order):
        assert (key, host) == (KEY, "")
        self.asked.append(order)
        if isinstance(order, EndFile):
            self.has_end.set()
            return TaskPiece(0, file=FileSeen())
        return self.answers.pop(0)


def on_desk(directory, work, *answers, owners=(ME,)):
    """Run work in a thread with a step's way to the worker; return what the worker has asked."""
    owners = list(owners)

    def owner_of(key):
        return owners.pop(0) if len(owners) > 1 else owners[0]

    async def run():
        faults = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: faults.append(context))
        door = LaunchDoor(directory / "s", b"k" * 32)
        far = Far(*answers)
        serving = asyncio.create_task(LaunchDesk(door, far, owner_of, logging.getLogger("x")).run())
        environ = {"XCE_JOBID": "7", "XCE_JOBINDEX": "3", "XCE_ATTEMPT": "1"}
        way = open_door({**environ, **door.environment(KEY)}, 5)
        way._of_all["name"] = "n"
        try:
            async with asyncio.timeout(30):
                await asyncio.to_thread(work, way)
                if far.asked and not isinstance(far.asked[-1], EndFile):
                    way.close()
                    await far.has_end.wait()
        finally:
            way.close()
            serving.cancel()
            await asyncio.wait({serving})
        gc.collect()
        assert faults == []
        return far.asked

    return asyncio.run(run())


def read(way):
    return way.ask({"what": "read", "place": 0, "limit": 9})


def test_pieces_go_both_ways_and_the_end_is_told(tmp_path):
    def work(way):
        answer = read(way)
        assert (answer.content, answer.is_over, answer.mode) == (b"\0ab", True, 0o640)
        order = {"what": "write", "place": 4, "mode": 0o600, "is_end": True}
        assert way.ask(order, b"cd").code == 0
        way.end()

    answers = (TaskPiece(0, file=FileSeen(0, b"\0ab", True, 0o640)), TaskPiece(0, file=FileSeen()))
    assert on_desk(tmp_path, work, *answers) == [
        ReadFile("n", 5, 0, 9), WriteFile("n", 5, 4, b"cd", 0o600, True), EndFile("n", 5)
    ]  # fmt: skip


def test_when_the_step_goes_its_copy_is_forgotten(tmp_path):
    asked = on_desk(tmp_path, read, TaskPiece(0, file=FileSeen(0, b"x")))
    assert asked[-1] == EndFile("n", 5)


@pytest.mark.parametrize(
    ("fault", "code"), [(TaskFault.REFUSED, ELSEWHERE), (TaskFault.OVER, AWAY)]
)
def test_what_cannot_be_is_told_apart(tmp_path, fault, code):
    def work(way):
        with pytest.raises(CopyError) as caught:
            read(way)
        assert caught.value.code == code

    on_desk(tmp_path, work, TaskPiece(0, fault))


def test_who_is_away_is_asked_again_also_a_worker_that_knows_nothing_yet(tmp_path):
    def work(way):
        assert read(way).is_repeat

    answers = (TaskPiece(0, TaskFault.AWAY), TaskPiece(0, file=FileSeen(0, b"x", True)))
    on_desk(tmp_path, work, *answers, owners=(None, None, ME))


@pytest.mark.parametrize(
    "order",
    [
        {"what": "read", "place": 1 << 70, "limit": 1}, {"what": "read", "place": 0},
        {"what": "read", "place": "x", "limit": 1}, {"what": "write", "name": "\ud800"},
        {"do": "start", "host": "\ud800"}, {"do": "nothing"}, {"name": None, "do": "signal"},
        {"what": "end", "transfer": 1.5}, {"what": "read", "place": "9" * 30, "limit": 1},
        {"what": "write", "place": 0, "mode": "9" * 30, "is_end": True}, {"name": [[]]},
    ],
)  # fmt: skip
def test_whatever_a_program_of_a_job_says_the_worker_lives(tmp_path, order):
    def work(way):
        way.ask({"what": "end"})
        way._socket.settimeout(0.5)
        with pytest.raises(OSError):  # noqa: PT011 - it says nothing, or hangs up
            way._exchange(order, b"")
        way.close()
        assert read(way).content == b"x"

    on_desk(tmp_path, work, TaskPiece(0, file=FileSeen(0, b"x")))


def hear_all(way):
    while True:
        way._receive()


@pytest.mark.parametrize(
    ("orders", "content"),
    [(2, b"x"), (1, bytes(PIECE_MAX + 1))],
    ids=["before the answer", "too long"],
)
def test_a_step_gives_one_order_at_a_time_and_no_long_ones(tmp_path, orders, content):
    def work(way):
        read(way)
        head = {"do": "copy", "name": "n", "transfer": 5, "what": "write", "place": 0, "mode": 0}
        way._socket.sendall(encode_task_frame(head | {"is_end": False}, content) * orders)
        way._socket.settimeout(20)
        with pytest.raises(ConnectionResetError):
            hear_all(way)
        way.close()

    asked = on_desk(tmp_path, work, *[TaskPiece(0, file=FileSeen(0))] * 2)
    assert len(asked) <= 1 + orders


class Slow(Far):
    """Hosts that start nothing until they are told to."""

    def __init__(self):
        super().__init__()
        self.has_start, self.may_start = asyncio.Event(), asyncio.Event()
        self.bytes_asked = 0

    async def lead(self, key, host):
        return ""

    async def ask_until(self, key, host, order, *, patience_s=0.0):
        if isinstance(order, StartTask):
            self.bytes_asked += sum(map(len, order.argv))
            self.has_start.set()
            await self.may_start.wait()
            return TaskPiece(0, task=TaskSeen(pid=9))
        return TaskPiece(0, TaskFault.OVER, "gone")


async def connected(door):
    for _ in range(300):
        try:
            return await asyncio.open_unix_connection(str(door.socket))
        except OSError:  # it does not listen yet
            await asyncio.sleep(0.05)
    raise AssertionError("it does not listen")


def start_frame(name, size):
    head = {"do": "start", "name": name, "host": "h2", "argc": 1, "cwd": "/", "umask": 0}
    return encode_task_frame({**head, "input": False}, b"x" * size)


def test_what_is_not_started_yet_has_a_bounded_room_and_the_rest_is_not_read(tmp_path):
    async def run():
        door, far = LaunchDoor(tmp_path / "s", b"k" * 32), Slow()
        desk = LaunchDesk(door, far, lambda key: ME, logging.getLogger("x"))
        serving = asyncio.create_task(desk.run())
        reader, writer = await connected(door)
        hello = {"do": "hello", "job": 7, "index": 3, "attempt": 1, "key": door.key_of(KEY)}
        size = 3_000_000
        frames = [start_frame(f"t{number}", size) for number in range(4)]
        writer.write(encode_task_frame(hello) + b"".join(frames))
        async with asyncio.timeout(30):
            await far.has_start.wait()
            await asyncio.sleep(0.1)
            assert far.bytes_asked == size
            assert writer.transport.get_write_buffer_size() > size
            far.may_start.set()
            told = b""
            while told.count(b"started") < 4:
                told += await reader.read(10_000)
        assert desk._room._held == {}
        writer.close()
        serving.cancel()
        await asyncio.wait({serving})

    asyncio.run(run())


def test_a_stranger_is_not_heard_out(tmp_path):
    def work(way):
        read(way)
        stranger = socket.socket(socket.AF_UNIX)
        stranger.connect(str(tmp_path / "s"))
        stranger.settimeout(20)
        stranger.sendall(start_frame("t", 100_000)[:80_000])
        assert stranger.recv(1) == b""
        stranger.close()

    on_desk(tmp_path, work, TaskPiece(0, file=FileSeen(0, b"x")))
