import asyncio
import logging
import tempfile
from pathlib import Path

import pytest

from xce.apiserver import link as link_module
from xce.apiserver.link import ControllerLink
from xce.apiserver.problems import ProblemError
from xce.apiserver.replica import Replica
from xce.control.controller import Input
from xce.journal.codec import encode_batch
from xce.model.command import KillJobs, Selection, SubmitJobs
from xce.net import message as m
from xce.net.unix import open_unix_server
from xce.state.snapshot import dump
from xce.testing.builders import ALICE, cluster, submission

LOG = logging.getLogger("test-link")
SUBMIT = SubmitJobs(ALICE, (submission(),))
KILL = KillJobs("alice", False, Selection(all=True))


class FakeController:
    """A controller behind a real socket; ``drops`` asks are not answered but cut off."""

    def __init__(self, path):
        self.path = path
        self.controller = cluster()
        self.peers = []
        self.drops = 0
        self.holds = False
        self.asked = 0
        self.output = b""

    async def open(self):
        self.server = await open_unix_server(self.path, 0o600, self.accept)

    async def close(self):
        await self.server.close()
        for peer in self.peers:
            peer.close()

    def accept(self, peer, hello):
        assert hello.role == "apiserver"
        peer.on_messages = lambda messages: [self.hear(peer, message) for message in messages]
        peer.on_lost = lambda reason: None
        self.peers.append(peer)
        return m.Welcome(m.PROTOCOL, 1, "xce", "0", self.controller.state.seq)

    def hear(self, peer, message):
        match message:
            case m.Follow():
                self.send(peer, message.seq)
                peer.send(m.CaughtUp(self.controller.state.seq))
            case m.Ask():
                self.asked += 1
                if self.holds:
                    return
                if self.drops:
                    self.drops -= 1
                    peer.abort("dropped")
                    return
                before = self.controller.state.seq
                step = self.controller.step(
                    [Input(message.command, message.by, message.basis, 1)],
                    self.controller.now_us + 1,
                )
                (reply,) = step.replies
                peer.send(m.Answer(message.id, reply.seq, reply.results))
                self.send(peer, before)
            case m.FetchBlobs():
                peer.send(m.Blobs(message.id, tuple((h, b"text") for h in message.hashes)))
            case m.ReadOutput():
                peer.send(m.OutputChunk(message.id, self.output, len(self.output)))
            case _:
                raise AssertionError(message)

    def send(self, peer, behind):
        """Send the entries behind a seq."""
        entries = self.controller.entries
        before = encode_batch(entries[:behind], 0)[1] if behind else 0
        fresh = entries[behind:]
        if fresh:
            content, _ = encode_batch(fresh, before)
            peer.send(m.Batch(fresh[0].seq, fresh[-1].seq, content))


def tell(story, *, away_s=5.0):
    """Run ``story(fake, link, replica)`` with the link running."""

    async def run():
        with tempfile.TemporaryDirectory() as directory:
            fake = FakeController(Path(directory) / "c.sock")
            await fake.open()
            replica = Replica()
            hello = m.Hello(m.PROTOCOL, "apiserver", "a", "0")
            link = ControllerLink([fake.path], hello, replica, LOG, away_s=away_s)
            running = asyncio.create_task(link.run())
            try:
                await story(fake, link, replica)
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                await fake.close()
                await asyncio.sleep(0)

    asyncio.run(run())


def test_a_command_is_carried_and_its_entry_comes_back():
    async def story(fake, link, replica):
        assert await replica.wait_until_whole(5)
        answer = await link.ask(SUBMIT, by="alice", basis="owner")
        assert answer.results[0].job == 1
        assert await replica.reach(answer.seq, 5)
        assert dump(replica.state) == dump(fake.controller.state)
        assert replica.stale_s == 0
        assert fake.controller.entries[-1].cause.by == "alice"

    tell(story)


def test_a_repeatable_command_is_sent_again_when_its_answer_was_lost():
    async def story(fake, link, replica):
        fake.drops = 1
        answer = await link.ask(KILL, by="alice", basis="owner", repeatable=True)
        assert fake.asked == 2
        assert answer.results[0].code == "unknown-job"

    tell(story)


def test_one_that_may_not_be_repeated_is_told_as_unknown():
    async def story(fake, link, replica):
        await replica.wait_until_whole(5)
        fake.drops = 1
        with pytest.raises(ProblemError) as raised:
            await link.ask(SUBMIT, by="alice", basis="owner", repeatable=False)
        assert raised.value.problem.code == "outcome-unknown"
        assert raised.value.problem.status == 500
        assert fake.asked == 1

    tell(story)


@pytest.mark.parametrize(
    ("repeatable", "code"), [(True, "controller-away"), (False, "outcome-unknown")]
)
def test_an_answer_that_does_not_come_leaves_open_what_was_done(monkeypatch, repeatable, code):
    monkeypatch.setattr(link_module, "ANSWER_S", 0.05)

    async def story(fake, link, replica):
        fake.holds = True
        with pytest.raises(ProblemError) as raised:
            await link.ask(KILL, by="alice", basis="owner", repeatable=repeatable)
        assert raised.value.problem.code == code

    tell(story)


def test_while_the_controller_is_away_a_write_waits_a_little_and_then_asks_to_come_again():
    async def story(fake, link, replica):
        await replica.wait_until_whole(5)
        await fake.close()
        while link.is_connected:  # noqa: ASYNC110 - nobody would set an event
            await asyncio.sleep(0.002)
        assert replica.stale_s > 0
        with pytest.raises(ProblemError) as raised:
            await link.ask(KILL, by="alice", basis="owner")
        assert (raised.value.problem.status, raised.value.retry_after_s) == (503, 1)
        waiting = asyncio.create_task(link.ask(KILL, by="alice", basis="owner"))
        await asyncio.sleep(0.01)
        await fake.open()
        assert (await waiting).results
        assert replica.is_whole

    tell(story, away_s=1.0)


def test_blobs_and_output_are_fetched():
    async def story(fake, link, replica):
        fake.output = b"hello"
        assert await link.fetch_blob("h") == b"text"
        chunk = await link.read_output(
            lambda number: m.ReadOutput(
                number, "h1", 1, 0, 1, "stdout", "", "/", "alice", 1, 1, 0, 100
            )
        )
        assert (chunk.content, chunk.size) == (b"hello", 5)

    tell(story)


def test_a_stream_that_stays_damaged_is_given_up():
    async def story(fake, link, replica):
        await replica.wait_until_whole(5)
        for _ in range(4):
            for peer in fake.peers:
                if peer.is_open:
                    peer.send(m.Batch(replica.seq + 1, replica.seq + 1, b"garbage" * 4))
            await asyncio.sleep(0.05)
            if link.failed.done():
                break
            # It begins anew each time; the same damage comes again.
            fake.send = lambda peer, behind: peer.send(m.Batch(1, 1, b"garbage" * 4))
        assert link.failed.done()

    tell(story)


@pytest.mark.parametrize("is_known", [False, True], ids=["trouble comes later", "trouble is known"])
@pytest.mark.parametrize("is_repeatable", [False, True])
def test_a_write_that_the_journal_cannot_take_is_told_undecided_soon(
    monkeypatch, is_known, is_repeatable
):
    monkeypatch.setattr("xce.apiserver.link.UNDECIDED_S", 0.05)

    async def story(fake, link, replica):
        assert await replica.wait_until_whole(5)
        fake.holds = True
        (peer,) = fake.peers
        if is_known:
            peer.send(m.JournalTrouble("disk full"))
            while not link.trouble:  # noqa: ASYNC110 - nobody would set an event
                await asyncio.sleep(0.001)
        asked = asyncio.create_task(
            link.ask(SUBMIT, by="alice", basis="owner", repeatable=is_repeatable)
        )
        while not fake.asked:  # noqa: ASYNC110 - nobody would set an event
            await asyncio.sleep(0.001)
        if not is_known:
            peer.send(m.JournalTrouble("disk full"))
        with pytest.raises(ProblemError, match="cannot be written: disk full") as caught:
            await asyncio.wait_for(asked, 5)
        problem = caught.value.problem
        assert (problem.status, problem.code) == (503, "undecided")
        assert ("under the same key" in problem.detail) is is_repeatable
        peer.send(m.JournalTrouble(""))
        fake.holds = False
        assert (await link.ask(SUBMIT, by="alice", basis="owner")).results[0].job == 1
        assert link.trouble == ""

    tell(story)
