"""Which keys are trusted, by whom, and for how long."""

import msgspec
import pytest

from xce.model.certificate import parse_certificate
from xce.model.command import Accepted, EnrolHost, MakeHostToken, RevokeKeys, TrustKey
from xce.model.ids import HOUR_US
from xce.model.refusal import Refusal, RefusalCode
from xce.sim.certificates import make_certificate
from xce.state.snapshot import digest, dump, load
from xce.testing.builders import cluster, replayed

WORKER = make_certificate(b"w" * 32)
OTHER = make_certificate(b"o" * 32)
CONTROLLER = make_certificate(b"c" * 32)
KEY = parse_certificate(WORKER).fingerprint


@pytest.fixture
def controller():
    return cluster(hosts={"h1": 4, "h2": 4})


def code(results):
    (result,) = results
    return result.code if isinstance(result, Refusal) else result.text


def trust(controller, certificate=WORKER, role="worker", name="h1", expires_at_us=0):
    return code(controller.tell(TrustKey("ann", certificate, role, name, expires_at_us)))


def refusal(controller, role="worker", name="h1", key=KEY):
    return controller.state.trust.refuse(key, role, name, controller.now_us)


def test_a_key_speaks_only_in_its_role_and_under_its_name(controller):
    assert "is not trusted here" in refusal(controller)
    assert trust(controller) == "trusted"
    assert refusal(controller) == ""
    assert "is for role worker, not for admin" in refusal(controller, role="admin")
    assert "is for worker h1, not for h2" in refusal(controller, name="h2")


def test_a_name_may_be_a_pattern(controller):
    assert trust(controller, name="h*") == "trusted"
    assert refusal(controller, name="h2") == ""
    assert "is for worker h*, not for g1" in refusal(controller, name="g1")


def test_a_key_expires_and_its_expiry_can_be_moved(controller):
    trust(controller, expires_at_us=controller.now_us + HOUR_US)
    assert refusal(controller) == ""
    controller.now_us += HOUR_US
    assert "has expired" in refusal(controller)
    assert controller.state.trust.valid("worker", controller.now_us) == []
    trust(controller, expires_at_us=controller.now_us + HOUR_US)
    assert refusal(controller) == ""


def test_trusting_the_same_key_again_changes_nothing(controller):
    trust(controller)
    seq = controller.state.seq
    assert trust(controller) == "trusted"
    assert controller.state.seq == seq


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"certificate": b"rubbish"}, RefusalCode.BAD_KEY),
        ({"certificate": WORKER[:-1]}, RefusalCode.BAD_KEY),
        ({"certificate": WORKER + b"\0"}, RefusalCode.BAD_KEY),
        ({"role": "thief"}, RefusalCode.BAD_REQUEST),
        ({"role": "test"}, RefusalCode.BAD_REQUEST),
        ({"name": "a b"}, RefusalCode.BAD_REQUEST),
        ({"name": ""}, RefusalCode.BAD_REQUEST),
        ({"name": "[h]1"}, RefusalCode.BAD_REQUEST),
        ({"expires_at_us": 1}, RefusalCode.BAD_REQUEST),
    ],
)
def test_what_cannot_be_trusted_is_refused(controller, change, expected):
    assert trust(controller, **change) == expected


def test_a_key_has_one_role(controller):
    trust(controller)
    assert trust(controller, role="admin", name="ann") == RefusalCode.BAD_KEY


def test_a_revoked_key_is_never_trusted_again(controller):
    trust(controller)
    assert code(controller.tell(RevokeKeys("ann", (KEY[:8],), "lost"))) == "revoked"
    assert "was revoked" in refusal(controller)
    assert trust(controller) == RefusalCode.KEY_REVOKED
    assert controller.state.trust.revoked[KEY].why == "lost"
    assert controller.state.trust.revoked[KEY].name == "h1"


def test_a_key_that_was_never_seen_can_be_revoked_by_its_whole_fingerprint(controller):
    assert code(controller.tell(RevokeKeys("ann", (KEY,)))) == "revoked"
    assert trust(controller) == RefusalCode.KEY_REVOKED


@pytest.mark.parametrize("text", ["", "abc", "x" * 20, KEY[:9]])
def test_what_names_no_key_is_not_revoked(controller, text):
    assert code(controller.tell(RevokeKeys("ann", (text,)))) == RefusalCode.UNKNOWN_KEY


def test_revoking_twice_leaves_one_record(controller):
    trust(controller)
    controller.tell(RevokeKeys("ann", (KEY, KEY)))
    seq = controller.state.seq
    assert code(controller.tell(RevokeKeys("ann", (KEY,)))) == "revoked"
    assert controller.state.seq == seq


def test_the_last_key_of_the_controller_stays(controller):
    trust(controller, CONTROLLER, "controller", "c")
    key = parse_certificate(CONTROLLER).fingerprint
    assert code(controller.tell(RevokeKeys("ann", (key,)))) == RefusalCode.WRONG_STATE
    trust(controller, OTHER, "controller", "c")
    both = (key, parse_certificate(OTHER).fingerprint)
    first, second = controller.tell(RevokeKeys("ann", both))
    assert isinstance(first, Accepted)
    assert second.code == RefusalCode.WRONG_STATE


def test_two_keys_of_one_name_are_trusted_at_the_same_time(controller):
    trust(controller)
    trust(controller, OTHER)
    assert refusal(controller) == ""
    assert refusal(controller, key=parse_certificate(OTHER).fingerprint) == ""


def make_token(controller, *, token="t1", host="h1", for_us=HOUR_US, key_expires_at_us=0):
    expires_at_us = controller.now_us + for_us
    command = MakeHostToken("ann", token, "digest", host, expires_at_us, key_expires_at_us)
    return code(controller.tell(command))


def enrol(controller, *, token="t1", digest="digest", host="h1", certificate=WORKER):
    return code(controller.tell(EnrolHost(token, digest, host, certificate)))


def test_a_token_enrols_one_key_once(controller):
    assert make_token(controller) == "made"
    assert enrol(controller) == "enrolled"
    assert refusal(controller) == ""
    assert controller.state.trust.keys[KEY].by == "ann"
    assert enrol(controller, certificate=OTHER) == RefusalCode.BAD_TOKEN
    assert enrol(controller) == "enrolled", "the answer may have been lost"


@pytest.mark.parametrize(
    "change", [{"token": "t2"}, {"digest": "guess"}, {"host": "h2"}, {"certificate": b"rubbish"}]
)
def test_what_does_not_fit_its_token_is_not_enrolled(controller, change):
    make_token(controller)
    assert enrol(controller, **change) in (RefusalCode.BAD_TOKEN, RefusalCode.BAD_KEY)
    assert controller.state.trust.keys == {}
    assert enrol(controller) == "enrolled", "a failed try does not use the token up"


def test_a_token_expires(controller):
    make_token(controller)
    controller.now_us += HOUR_US
    assert enrol(controller) == RefusalCode.BAD_TOKEN


def test_expired_tokens_are_forgotten_when_another_is_made(controller):
    make_token(controller, token="t1")
    controller.now_us += 2 * HOUR_US
    make_token(controller, token="t2")
    assert list(controller.state.trust.tokens) == ["t2"]


def test_a_token_can_bound_the_life_of_the_key(controller):
    expires_at_us = controller.now_us + 5 * HOUR_US
    make_token(controller, key_expires_at_us=expires_at_us)
    enrol(controller)
    assert controller.state.trust.keys[KEY].expires_at_us == expires_at_us


def test_a_revoked_key_cannot_enrol(controller):
    make_token(controller)
    controller.tell(RevokeKeys("ann", (KEY,)))
    assert enrol(controller) == RefusalCode.KEY_REVOKED


def test_tokens_are_made_for_configured_hosts_only(controller):
    assert make_token(controller, host="h9") == RefusalCode.UNKNOWN_HOST
    assert make_token(controller, for_us=0) == RefusalCode.BAD_REQUEST
    make_token(controller)
    assert make_token(controller) == RefusalCode.BAD_TOKEN


def test_the_trusted_list_is_in_entries_and_in_snapshots(controller):
    make_token(controller)
    enrol(controller)
    trust(controller, CONTROLLER, "controller", "c")
    controller.tell(RevokeKeys("ann", (KEY,), "lost"))
    state = controller.state
    assert digest(replayed(controller.entries)) == digest(state)
    loaded = load(dump(state))
    assert digest(loaded) == digest(state)
    assert loaded.trust.revoked == state.trust.revoked
    assert loaded.trust.keys == state.trust.keys


def test_the_secret_of_a_token_is_nowhere(controller):
    make_token(controller)
    assert b"secret" not in msgspec.msgpack.encode(controller.entries)
