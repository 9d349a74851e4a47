import os
import socket

from xce.apiserver.identity import Identities, group_names, peer_credentials, user_name


def test_credentials_are_the_kernels():
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with one, other:
        assert peer_credentials(one) == (os.geteuid(), os.getegid())
        one.send(b"x")  # the descriptor is still open
        assert other.recv(1) == b"x"


def test_a_user_without_a_name_is_a_number():
    assert user_name(3_999_999_999) == "3999999999"
    assert user_name(0) == "root"


def test_root_and_the_runner_are_administrators():
    names = {0: "root", 5: "runner", 6: "alice"}
    identities = Identities(own_uid=5, name_of=names.__getitem__)
    assert identities.caller(0, 0).is_admin
    assert identities.caller(5, 5).is_admin
    alice = identities.caller(6, 6)
    assert not alice.is_admin
    assert alice.user == "alice"
    assert not alice.may_run
    assert identities.caller(5, 5).may_run
    assert Identities(own_uid=0, name_of=names.__getitem__).caller(6, 6).may_run


def test_a_caller_has_the_groups_that_the_system_says():
    identities = Identities(
        own_uid=0, name_of=lambda _: "alice", groups_of=lambda user, gid: (user, f"g{gid}")
    )
    assert identities.caller(6, 7).groups == ("alice", "g7")
    assert "root" in group_names("root", 0)
    assert group_names("nobody-by-that-name", 3_999_999_999) == ()


def test_a_name_is_asked_for_again_after_a_while():
    asked = []
    now = [0.0]

    def name_of(uid):
        asked.append(uid)
        return "x"

    identities = Identities(own_uid=1, name_of=name_of, clock=lambda: now[0])
    for at in (0.0, 1.0, 100.0):
        now[0] = at
        identities.caller(6, 6)
    assert asked == [6, 6]
