"""Which controllers a component dials, and with what key."""

import logging

import pytest

from xce.daemon.dialling import find_ways
from xce.daemon.fresh_config import machine_name
from xce.daemon.key_files import KeyFileError, load_controllers, make_key, store_key
from xce.daemon.paths import find_layout
from xce.net.tls import TlsDialler

LOG = logging.getLogger("test-dialling")
NAME = machine_name()


@pytest.fixture
def layout(tmp_path):
    layout = find_layout(tmp_path / "d")
    layout.config.mkdir(parents=True)
    return layout


def configure(layout, text):
    (layout.config / "xce.yaml").write_text(text)


def give_keys(layout, role="apiserver"):
    store_key(layout.keys, f"{role}-{NAME}", make_key(role, NAME))
    controller = store_key(layout.root / "other", "controller", make_key("controller", "c"))
    (layout.keys / "controllers.pem").write_bytes(controller.certificate.read_bytes())


def test_without_a_word_the_controller_is_that_of_the_state_directory(layout):
    assert find_ways(layout, "apiserver", LOG)[:2] == ((layout.controller_socket,), "")
    configure(layout, "controllers: [/a/c.sock, /b/c.sock]\n")
    found = find_ways(layout, "apiserver", LOG)
    assert [str(path) for path in found.destinations] == ["/a/c.sock", "/b/c.sock"]


def test_controllers_of_other_machines_are_dialled_with_the_key_of_the_role(layout):
    give_keys(layout)
    configure(layout, "controllers: [c1:7820, '[fd00::2]:7820']\n")
    own, *others = find_ways(layout, "apiserver", LOG).destinations
    assert own == layout.controller_socket, "a controller of this machine comes first"
    assert all(isinstance(item, TlsDialler) for item in others)
    assert [str(item.address) for item in others] == ["c1:7820", "[fd00::2]:7820"]
    assert find_ways(layout, "apiserver", LOG).name == NAME
    with pytest.raises(KeyFileError, match=f"xceadmin keys new history {NAME}"):
        find_ways(layout, "history", LOG)


def test_without_the_controllers_certificate_nobody_is_dialled(layout):
    give_keys(layout)
    (layout.keys / "controllers.pem").unlink()
    configure(layout, "controllers: [c1:7820]\n")
    with pytest.raises(KeyFileError, match=r"controller\.crt of the controller's machine"):
        find_ways(layout, "apiserver", LOG)


def test_a_key_that_others_can_read_is_refused(layout):
    give_keys(layout)
    (layout.keys / f"apiserver-{NAME}.key").chmod(0o644)
    configure(layout, "controllers: [c1:7820]\n")
    with pytest.raises(KeyFileError, match="can be read by others"):
        find_ways(layout, "apiserver", LOG)


def test_what_the_leader_says_of_keys_is_kept_for_every_way(layout, caplog):
    give_keys(layout)
    configure(layout, "controllers: [c1:7820, c2:7820]\n")
    ways = find_ways(layout, "apiserver", LOG)
    before = load_controllers(layout.keys)
    ways.learn(())
    assert load_controllers(layout.keys) == before, "a controller has a key"
    fresh = (*before, make_key("controller", "d").certificate)
    ways.learn(fresh)
    assert load_controllers(layout.keys) == fresh
    assert [item.controllers for item in ways.destinations[1:]] == [fresh, fresh]
    assert not caplog.records
