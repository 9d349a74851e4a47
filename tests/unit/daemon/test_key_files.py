"""Keys as files: who can read them, what is refused, and that nothing of them is told."""

import os
import ssl
import stat

import pytest

from xce.daemon.key_files import (
    KeyFileError,
    check_key,
    key_pair,
    load_certificates,
    load_controllers,
    load_label,
    load_revoked,
    make_key,
    note_revoked,
    render_pem,
    store_controllers,
    store_key,
)
from xce.model.certificate import parse_certificate
from xce.net.frame import WireError
from xce.net.tls import KeyPair, make_client_context, make_server_context, trust
from xce.sim.certificates import make_certificate


@pytest.fixture
def keys(tmp_path):
    directory = tmp_path / "keys"
    directory.mkdir(mode=0o700)
    return directory


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_key_is_readable_by_its_owner_only(keys):
    made = make_key("worker", "h1")
    pair = store_key(keys, "worker-h1", made, label=("worker", "h1"))
    assert mode(pair.key) == 0o600
    assert mode(pair.certificate) == 0o644
    assert load_certificates(pair.certificate) == [made.certificate]
    assert load_label(pair.certificate) == ("worker", "h1")
    assert check_key(pair) == pair
    assert sorted(path.name for path in keys.iterdir()) == ["worker-h1.crt", "worker-h1.key"]


def test_two_keys_of_one_name_are_two_and_their_certificates_are_ours():
    one, other = make_key("worker", "h1"), make_key("worker", "h1")
    assert one.fingerprint != other.fingerprint
    assert parse_certificate(one.certificate).fingerprint == one.fingerprint
    assert repr(one) == f"MadeKey({one.fingerprint[:16]})"


def test_a_key_is_not_overwritten(keys):
    pair = store_key(keys, "a", make_key("admin", "a"))
    before = pair.key.read_bytes()
    with pytest.raises(KeyFileError, match="not overwritten"):
        store_key(keys, "a", make_key("admin", "a"))
    assert pair.key.read_bytes() == before
    store_key(keys, "a", make_key("admin", "a"), replace=True)
    assert pair.key.read_bytes() != before


@pytest.mark.parametrize("stem", ["../a", "a/b", "", ".a", "a b"])
def test_a_key_stays_in_its_directory(keys, stem):
    with pytest.raises(KeyFileError, match="is no name"):
        store_key(keys, stem, make_key("admin", "a"))


def test_a_directory_that_others_can_write_gets_no_key(keys):
    keys.chmod(0o777)
    with pytest.raises(KeyFileError, match="written by others"):
        store_key(keys, "a", make_key("admin", "a"))


@pytest.mark.parametrize("bits", [0o640, 0o604, 0o660, 0o644])
def test_a_key_that_others_can_read_is_refused(keys, bits):
    pair = store_key(keys, "a", make_key("admin", "a"))
    pair.key.chmod(bits)
    with pytest.raises(KeyFileError, match="can be read by others"):
        check_key(pair)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_a_key_of_somebody_else_is_refused(keys):
    pair = store_key(keys, "a", make_key("admin", "a"))
    os.chown(pair.key, 12345, 12345)
    with pytest.raises(KeyFileError, match="belongs to user id 12345"):
        check_key(pair)


def test_a_private_key_in_the_place_of_a_certificate_is_refused_untold(keys):
    pair = store_key(keys, "a", make_key("admin", "a"))
    with pytest.raises(KeyFileError, match="holds a private key") as caught:
        load_certificates(pair.key)
    assert pair.key.read_text().splitlines()[1] not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"rubbish", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", bytes(99)],
)
def test_what_is_no_certificate_is_refused(tmp_path, content):
    path = tmp_path / "a.crt"
    path.write_bytes(content)
    with pytest.raises(KeyFileError):
        load_certificates(path)


def test_what_is_no_key_is_refused_without_a_word_about_it(keys):
    pair = key_pair(keys, "a")
    pair.key.write_text("-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n")
    pair.certificate.write_bytes(render_pem(make_key("admin", "a").certificate))
    with pytest.raises(WireError) as caught:
        make_client_context(pair, ())
    assert "c2VjcmV0" not in str(caught.value)
    assert caught.value.__cause__ is None
    with pytest.raises(WireError, match="No such file"):
        make_client_context(KeyPair(pair.certificate, keys / "none.key"), ())


def test_a_key_and_the_certificate_of_another_do_not_go_together(keys):
    one = store_key(keys, "one", make_key("controller", "c"))
    other = store_key(keys, "other", make_key("controller", "c"))
    with pytest.raises(WireError, match="cannot be used"):
        make_server_context(KeyPair(one.certificate, other.key), ())


def test_what_openssl_cannot_read_is_not_among_the_roots():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    assert trust(context, make_key("worker", "h1").certificate)
    assert not trust(context, b"rubbish")


def test_controllers_are_kept_and_read_again(keys):
    assert load_controllers(keys) == ()
    certificates = (make_certificate(b"a" * 32), make_certificate(b"b" * 32))
    store_controllers(keys, certificates)
    assert load_controllers(keys) == certificates


def test_revoked_keys_are_written_down_once_each_and_outlive_a_cut_line(keys):
    assert load_revoked(keys) == []
    one, other = "a" * 64, "b" * 64
    note_revoked(keys, [one])
    note_revoked(keys, [one])
    assert load_revoked(keys) == [one]
    with (keys / "revoked").open("a") as file:
        file.write("c" * 30)  # a crash
    note_revoked(keys, [one, other])
    assert load_revoked(keys) == [one, other]


def test_a_list_of_revoked_keys_that_cannot_be_read_is_no_empty_list(keys):
    (keys / "revoked").mkdir()
    with pytest.raises(KeyFileError, match="cannot be read"):
        load_revoked(keys)
