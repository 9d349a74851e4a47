"""`xceadmin rbac check` and `logins revoke`: what they print and their exit status."""

import pytest

from xce.cli.xceadmin import apiserver, rbac
from xce.client.rest import ProblemError, UnreachableError
from xce.daemon.settings import load_settings


class Canned:
    """Gives what the test says."""

    answer: object = None

    def __init__(self, path, *, wait_s, progress):
        self.path = path

    def call(self, method, path, pairs, document, *, key):
        if path == "/logins/revoke":
            assert method == "POST"
            return document
        assert (method, path, document) == ("GET", "/rbac", None)
        assert dict(pairs)["permission"] == "job:kill"
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def close(self):
        pass


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setattr(apiserver, "Api", Canned)

    def check(answer, **options):
        Canned.answer = answer
        settings = load_settings(str(tmp_path))
        return rbac.run_rbac(settings, "ann", "job:kill", "job:12", as_json=False, **options)

    return check


def test_yes_and_no_are_told_with_their_ground(run, capsys):
    document = {"allowed": True, "object": "job:12", "why": "it is his own job"}
    assert run(document) == 0
    assert capsys.readouterr().out == "yes: ann job:kill job:12: it is his own job\n"
    assert run({**document, "allowed": False, "why": "no role has it"}) == 4
    assert capsys.readouterr().out == "no: ann job:kill job:12: no role has it\n"


def test_troubles_have_their_own_status(run, capsys):
    assert run(ProblemError(403, {"detail": "you lack it", "code": "denied"})) == 4
    assert run(ProblemError(404, {"detail": "no job", "code": "unknown-job"})) == 3
    assert run(UnreachableError("nobody there")) == 5
    assert "xceadmin rbac: you lack it" in capsys.readouterr().err


def test_logins_are_ended_one_or_all(run, capsys, tmp_path):
    settings = load_settings(str(tmp_path))
    assert rbac.run_logins(settings, "ann", "") == 0
    assert rbac.run_logins(settings, "ann", "ab12") == 0
    assert capsys.readouterr().out == ("every login of ann is ended\nlogin ab12 of ann is ended\n")
