"""Tasks as whoever starts them sees them: those of its own host, and those that a worker has."""

import socket
import threading

import pytest

from xce.client.tasks import ERR, FAILED, OUT, OVER, STARTED, NoJobError, Tasks
from xce.net.task_frame import TaskFrameError, TaskFrameReader, encode_task_frame

JOB = {
    "XCE_JOBID": "1",
    "XCE_JOBINDEX": "0",
    "XCE_ATTEMPT": "1",
    "HOSTNAME": "h1",
    "PATH": "/bin:/usr/bin",
}


def until(tasks, *kinds):
    """Return what happened up to the first event of these kinds."""
    found = []
    while not any(event.kind in kinds for event in found):
        found += tasks.serve(20)
        assert found, "nothing happens"
    return found


@pytest.fixture
def tasks():
    own = Tasks(JOB)
    yield own
    own.close()


def test_outside_a_job_nothing_is_started():
    with pytest.raises(NoJobError):
        Tasks({})


def test_a_task_of_ones_own_host_is_a_child(tasks, tmp_path):
    argv = ["sh", "-c", 'cat; echo "$A" >&2; pwd; exit 3']
    task = tasks.start("h1", argv, env={**JOB, "A": "x"}, cwd=str(tmp_path), has_input=True)
    tasks.write(task, b"in" * 100_000)
    tasks.end_input(task)
    events = until(tasks, OVER)
    out = b"".join(event.content for event in events if event.kind == OUT)
    assert out == b"in" * 100_000 + f"{tmp_path}\n".encode()
    assert b"".join(event.content for event in events if event.kind == ERR) == b"x\n"
    assert (events[0].kind, events[-1].code) == (STARTED, 3)


def test_a_signal_goes_to_the_whole_group(tasks):
    task = tasks.start("h1", ["sh", "-c", "sleep 300; true"], env=JOB, cwd="/")
    until(tasks, STARTED)
    tasks.signal(task, 9)
    assert until(tasks, OVER)[-1].code == 137


def test_a_directory_that_is_not_there_is_said_so(tasks):
    tasks.start("h1", ["true"], env=JOB, cwd="/nowhere")
    (event,) = until(tasks, FAILED)
    assert b"cannot start true" in event.content
    assert event.code == 255


def test_other_hosts_are_for_the_first_host_only(tasks):
    tasks.start("h2", ["true"], env=JOB, cwd="/")
    (event,) = until(tasks, FAILED)
    assert b"first host only" in event.content


class Desk:
    """A worker that can be restarted: each story serves one connection."""

    def __init__(self, path, *stories):
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self.heard = []
        self._thread = threading.Thread(target=self._run, args=(stories,))
        self._thread.start()

    def _run(self, stories):
        for story in stories:
            channel, _ = self._listener.accept()
            with channel:
                channel.settimeout(20)
                self._frames = TaskFrameReader()
                self._waiting = []
                story(self, channel)
        self._listener.close()

    def hear(self, channel):
        while not self._waiting:
            self._waiting = self._frames.feed(channel.recv(65536))
        frame = self._waiting.pop(0)
        self.heard.append(frame)
        return frame

    def join(self):
        self._thread.join(30)


def tell(channel, content=b"", **head):
    channel.sendall(
        encode_task_frame({"is" if key == "kind" else key: head[key] for key in head}, content)
    )


def test_after_a_restart_of_the_worker_it_goes_on_where_it_was(tmp_path):
    def first(desk, channel):
        desk.hear(channel)
        tell(channel, kind="welcome")
        head, _ = desk.hear(channel)
        tell(channel, kind="started", name=head["name"], pid=5)
        tell(channel, b"abc", kind="out", name=head["name"], place=0)

    def second(desk, channel):
        desk.hear(channel)
        tell(channel, kind="welcome")
        head, _ = desk.hear(channel)
        tell(channel, b"bcdef", kind="out", name=head["name"], place=1)
        tell(channel, kind="over", name=head["name"], code=4)

    desk = Desk(tmp_path / "l", first, second)
    environ = {**JOB, "XCE_LAUNCH_SOCKET": str(tmp_path / "l"), "XCE_LAUNCH_KEY": "k"}
    tasks = Tasks(environ)
    task = tasks.start("h2", ["cmd", "x"], env={"A": "1"}, cwd="/w")
    events = until(tasks, OVER)
    tasks.close()
    desk.join()
    assert b"".join(event.content for event in events if event.kind == OUT) == b"abcdef"
    assert events[-1].code == 4
    hello, start, again, follow = desk.heard
    assert hello == again == ({"do": "hello", "job": 1, "index": 0, "attempt": 1, "key": "k"}, b"")
    assert (start[0]["argc"], start[1]) == (2, b"cmd\0x\0A=1")
    assert follow[0] == {"do": "follow", "name": task.name, "host": "h2", "out": 3, "err": 0}


def test_a_refusal_fails_what_was_asked(tmp_path):
    def story(desk, channel):
        desk.hear(channel)
        tell(channel, kind="refused", text="the job is not yours")

    desk = Desk(tmp_path / "l", story)
    tasks = Tasks({**JOB, "XCE_LAUNCH_SOCKET": str(tmp_path / "l")})
    tasks.start("h2", ["true"], env={}, cwd="/")
    (event,) = until(tasks, FAILED)
    tasks.close()
    desk.join()
    assert event.content == b"the job is not yours"


def test_frames_come_in_pieces_and_nonsense_is_refused():
    reader = TaskFrameReader()
    frame = encode_task_frame({"is": "out"}, b"x\0y")
    assert reader.feed(frame[:5]) == []
    assert reader.feed(frame[5:] + frame) == [({"is": "out"}, b"x\0y")] * 2
    for wrong in (b"\xff\xff\xff\xff\0\0", b"\0\0\0\4\0\2[]", b"\0\0\0\4\0\2{x"):
        with pytest.raises(TaskFrameError):
            TaskFrameReader().feed(wrong)
