"""MUNGE: refused by name where it is absent; where it is there, a credential counts once."""

import pytest
from outside import run_outside

from xce.apiserver import munge
from xce.apiserver.identity import Caller
from xce.apiserver.logins import LoginError
from xce.apiserver.munge import Credential, Munge, MungeError
from xce.model.api import ApiConfig
from xce.model.job import Owner


def running_munge():
    """Return MUNGE, or skip the test where it is not installed or does not run."""
    try:
        found = Munge()
        found.encode(b"")
    except MungeError as error:
        pytest.skip(str(error))
    return found


def test_a_library_that_is_absent_or_none_is_told():
    with pytest.raises(MungeError, match="cannot be loaded"):
        Munge("/no/such/libmunge.so")


def test_an_absent_library_is_refused_by_name(monkeypatch):
    monkeypatch.setattr(munge.ctypes.util, "find_library", lambda _: None)
    with pytest.raises(MungeError, match="libmunge is not installed"):
        Munge()


def test_a_credential_names_its_maker_and_counts_once():
    library = running_munge()
    credential = library.encode(b"xce:demo")
    assert library.decode(credential).payload == b"xce:demo"
    with pytest.raises(MungeError, match="Replayed"):
        library.decode(credential)
    for text in ("", "x", "MUNGE:AwQ:", "MUNGE:\0:", "\u00e9", "x" * 100_000):
        with pytest.raises(MungeError):
            library.decode(text)


class Said:
    """A library that says what the test wants."""

    def __init__(self, credential):
        self._credential = credential

    def decode(self, credential):
        return self._credential


@pytest.mark.parametrize(
    ("credential", "said"),
    [
        (Credential(1001, 1001, b"xce:another"), "something else"),
        (Credential(1001, 1001, b""), "something else"),
        (Credential(0, 0, b"xce:xce"), "root does not log in"),
    ],
)
def test_a_credential_for_another_cluster_and_one_of_root_are_refused(tmp_path, credential, said):
    async def story(outside):
        logins = outside.rest.backend.logins
        logins._munge = Said(credential)
        with pytest.raises(LoginError, match=said):
            logins.prove_munge(ApiConfig(munge=True), "x", "xce:xce")
        with pytest.raises(LoginError, match="not configured"):
            logins.prove_munge(ApiConfig(), "x", "xce:xce")

    run_outside(story, tmp_path, munge=True)


def test_one_with_a_credential_gets_tokens(tmp_path):
    async def story(outside):
        rest = outside.rest
        rest.backend.logins._munge = Said(Credential(1001, 1001, b"xce:xce"))
        rest.identities.chosen = Caller(Owner("alice", 1001, 1001), is_admin=False)
        _, answer = await rest._rest.post("/login", {"way": "munge", "credential": "x"})
        assert answer["user"] == "alice"
        token = f"Bearer {answer['access_token']}"
        assert (await outside.status("/cluster", token))[0] == 200

    run_outside(story, tmp_path, munge=True)
