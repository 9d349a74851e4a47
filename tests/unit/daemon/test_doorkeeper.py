"""Who may come and who must go, as the trusted list and the clock say."""

import asyncio
import logging

import pytest

from xce.daemon.doorkeeper import Doorkeeper, Refusals
from xce.model.certificate import parse_certificate
from xce.model.command import RevokeKeys, TrustKey
from xce.model.ids import SECOND_US
from xce.net.handshake import make_hello
from xce.net.message import ControllerKeys
from xce.net.peer import Identity
from xce.sim.certificates import make_certificate
from xce.testing.builders import cluster

WORKER, CONTROLLER, SPARE = (make_certificate(letter * 32) for letter in (b"w", b"c", b"s"))
KEY = parse_certificate(WORKER).fingerprint
LOG = logging.getLogger("test-doorkeeper")


class Guest:
    """A connection that notes what becomes of it."""

    def __init__(self, key=KEY, protocol=2):
        self.identity = Identity("key", key, "10.0.0.9")
        self.protocol = protocol
        self.sent = []
        self.ended = ""

    def send(self, message):
        self.sent.append(message)

    def abort(self, why):
        self.ended = why


class Door:
    """A doorkeeper over a controller with a clock of its own."""

    def __init__(self, directory, *, is_test=False):
        self.controller = cluster(hosts={"h1": 4})
        self.keeper = Doorkeeper(
            directory, None, is_test=is_test, clock=lambda: self.controller.now_us, log=LOG
        )

    def trust(self, certificate=WORKER, role="worker", name="h1", for_us=0):
        expires_at_us = self.controller.now_us + for_us if for_us else 0
        self.controller.tell(TrustKey("ann", certificate, role, name, expires_at_us))
        self.look()

    def revoke(self, *keys):
        self.controller.tell(RevokeKeys("ann", keys))
        self.look()

    def look(self):
        self.keeper.look(self.controller.state, self.controller.now_us)

    def refuse(self, identity, role="worker", name="h1"):
        return self.keeper.refuse(self.controller.state, identity, make_hello(role, name, "1"))

    async def let_in(self, guest, role="worker", name="h1"):
        assert self.refuse(guest.identity, role, name) == ""
        self.keeper.note(guest, make_hello(role, name, "1"), self.controller.state)
        await asyncio.sleep(0)
        return guest


@pytest.fixture
def door(tmp_path):
    return Door(tmp_path)


@pytest.mark.parametrize(
    ("identity", "role", "production", "test"),
    [
        (Identity("local"), "worker", "", ""),
        (Identity("local"), "test", "is in mode production", ""),
        (Identity("plain"), "worker", "plaintext is refused", ""),
        (Identity("plain"), "test", "is in mode production", ""),
        (Identity("key", KEY), "test", "is in mode production", "have no keys"),
        (Identity("key", "f" * 64), "worker", "is not trusted", "is not trusted"),
        (Identity(), "worker", "no key was shown", "no key was shown"),
    ],
)
def test_who_may_come_in_which_mode(tmp_path, identity, role, production, test):
    for is_test, expected in ((False, production), (True, test)):
        found = Door(tmp_path, is_test=is_test).refuse(identity, role)
        assert (expected in found) if expected else found == ""


def test_a_revoked_key_ends_its_connections_and_is_written_down(door, tmp_path):
    async def story():
        door.trust()
        guests = [await door.let_in(Guest()) for _ in range(3)]
        door.revoke(KEY)
        assert all("was revoked" in guest.ended for guest in guests)
        assert KEY in (tmp_path / "revoked").read_text()
        assert "was revoked" in door.refuse(guests[0].identity)

    asyncio.run(story())


def test_a_key_that_expires_ends_its_connections_though_nothing_happens(door):
    async def story():
        door.trust(for_us=5 * SECOND_US)
        guest = await door.let_in(Guest())
        door.controller.now_us += 4 * SECOND_US
        door.look()
        assert guest.ended == ""
        door.controller.now_us += SECOND_US
        door.look()
        assert "has expired" in guest.ended

    asyncio.run(story())


def test_an_expiry_that_was_moved_holds(door):
    async def story():
        door.trust(for_us=5 * SECOND_US)
        guest = await door.let_in(Guest())
        door.trust(for_us=50 * SECOND_US)
        door.controller.now_us += 20 * SECOND_US
        door.look()
        assert guest.ended == ""
        door.controller.now_us += 31 * SECOND_US
        door.look()
        assert "has expired" in guest.ended

    asyncio.run(story())


def test_what_ended_by_itself_is_forgotten(door):
    async def story():
        door.trust()
        guest = await door.let_in(Guest())
        door.keeper.forget(guest)
        door.keeper.forget(guest)
        door.revoke(KEY)
        assert guest.ended == ""

    asyncio.run(story())


def test_workers_are_told_of_the_controllers_when_they_come_and_when_these_change(door):
    async def story():
        door.trust()
        door.trust(CONTROLLER, "controller", "c")
        guest = await door.let_in(Guest())
        old = await door.let_in(Guest(protocol=1))
        assert guest.sent == [ControllerKeys((CONTROLLER,))]
        door.trust(make_certificate(b"x" * 32), "worker", "h2")
        assert len(guest.sent) == 1, "nothing about controllers has changed"
        door.trust(SPARE, "controller", "d")
        assert guest.sent[-1] == ControllerKeys((CONTROLLER, SPARE))
        door.revoke(parse_certificate(CONTROLLER).fingerprint)
        assert guest.sent[-1] == ControllerKeys((SPARE,))
        assert old.sent == [], "its release has no such message"

    asyncio.run(story())


def test_everybody_who_follows_from_another_machine_is_told_of_the_controllers(door):
    async def story():
        door.trust(CONTROLLER, "controller", "c")
        for role in ("apiserver", "history", "scheduler", "standby", "admin"):
            certificate = make_certificate(role.encode().ljust(32, b"."))
            door.trust(certificate, role, "front")
            guest = Guest(parse_certificate(certificate).fingerprint)
            await door.let_in(guest, role=role, name="front")
            told = [ControllerKeys((CONTROLLER,))] if role != "admin" else []
            assert guest.sent == told, role

    asyncio.run(story())


def test_keys_that_an_older_journal_does_not_know_as_revoked_are_named(door, tmp_path):
    (tmp_path / "revoked").write_text(f"{KEY}\n")
    again = Door(tmp_path)
    assert again.keeper.missing_revocations(again.controller.state) == (KEY,)
    again.revoke(KEY)
    assert again.keeper.missing_revocations(again.controller.state) == ()


def test_refusals_are_counted_and_bounded(caplog):
    refusals = Refusals(LOG)
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            refusals.note("plaintext is refused", "10.0.0.1")
        for number in range(3_000):
            refusals.note(f"key {number} is not trusted", "10.0.0.1")
    assert refusals.counts["plaintext is refused"] == 100
    assert sum(refusals.counts.values()) == 3_100
    assert len(refusals.counts) <= 1_001
    plain = [record for record in caplog.records if "plaintext" in record.__dict__["why"]]
    assert len(plain) == 7, "the 1st, 2nd, 4th, ... 64th"


def test_what_is_kept_of_a_refusal_is_short_and_can_be_printed():
    refusals = Refusals(LOG)
    refusals.note("no \x1b[2Jhost " + "x" * 10_000, "10.0.0.1\n")
    (kind,) = refusals.counts
    assert kind.startswith("no ?[2Jhost xxx")
    assert len(kind) == 200
