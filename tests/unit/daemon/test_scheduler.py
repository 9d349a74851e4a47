"""For which controller a scheduler plans: the one of its own machine, however it got there."""

import logging

import pytest

from xce.daemon.dialling import own_controller
from xce.daemon.fresh_config import machine_name
from xce.daemon.key_files import make_key, store_key
from xce.daemon.paths import find_layout
from xce.daemon.scheduler import make_client
from xce.net.message import Welcome
from xce.net.peer import Identity

LOG = logging.getLogger("test-scheduler")
NAME = machine_name()
WELCOME = Welcome(2, 3, "demo", "0.1.0", 17)


class Told:
    """In the place of the scheduler."""

    def __init__(self):
        self.may_plan = None

    def welcome(self, peer, welcome, *, may_plan):
        self.may_plan = may_plan

    def hear(self, messages):
        """Nothing is said here."""

    def lose(self, reason):
        """Nothing is lost here."""


class At:
    """A connection to somebody with a key."""

    def __init__(self, key):
        self.identity = Identity("key" if key else "local", key)


@pytest.fixture
def layout(tmp_path):
    layout = find_layout(tmp_path / "d")
    layout.config.mkdir(parents=True)
    (layout.config / "xce.yaml").write_text("controllers: [a:7820, b:7820]\n")
    store_key(layout.keys, f"scheduler-{NAME}", make_key("scheduler", NAME))
    return layout


def test_it_plans_for_the_controller_of_its_machine_by_socket_or_by_key(layout):
    own, other = make_key("controller", "a"), make_key("controller", "b")
    store_key(layout.keys, "controller", own)
    (layout.keys / "controllers.pem").write_bytes((layout.keys / "controller.crt").read_bytes())
    told = Told()
    client = make_client(layout, told, LOG)
    by_socket, *over_network = client._destinations
    for destination, key, may_plan in (
        (by_socket, "", True),
        (over_network[0], other.fingerprint, False),
        (over_network[1], own.fingerprint, True),
        (over_network[1], "", False),
    ):
        client.destination = destination
        client._on_welcome(At(key), WELCOME)
        assert told.may_plan is may_plan, (destination, key)


def test_a_machine_without_a_controller_has_no_key_of_one(layout):
    assert own_controller(layout.keys) == ""
