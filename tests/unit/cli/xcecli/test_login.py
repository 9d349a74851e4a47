"""`xcecli login`: over the unix socket, and at a real provider, in a browser and by paste."""

import asyncio
import io
import re
import sys
import urllib.request

import pytest
from oidc_provider import press_log_in, provider_program
from outside import run_outside

from xce.apiserver import munge
from xce.cli.xcecli import login as login_module
from xce.cli.xcecli.main import execute
from xce.client.login_file import load_login, login_path
from xce.model.api import OidcConfig
from xce.model.config import GrantConfig


async def run(words, environ):
    """Run xcecli in another thread; return its status and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    status = await asyncio.to_thread(execute, words, environ, out, err)
    return status, out.getvalue(), err.getvalue()


class Line(io.StringIO):
    """Standard input that waits for what the test types."""

    def __init__(self, wait):
        super().__init__()
        self._wait = wait

    def readline(self, *_):
        return self._wait() + "\n"

    def isatty(self):
        return True


def test_login_and_logout_over_the_unix_socket(tmp_path):
    async def story(outside):
        here = {**outside.environ, "XCE_API_SOCKET": outside.rest.socket}
        del here["XCE_URL"]
        outside.rest.be("alice", uid=1001)
        status, out, _ = await run(["login"], here)
        assert status == 0
        assert out.startswith(f"alice is logged in at {outside.url} until ")
        assert f"export XCE_URL={outside.url}" in out
        assert (await run(["jobs"], outside.environ))[0] == 0
        assert await run(["logout"], outside.environ) == (0, "logged out\n", "")
        status, _, err = await run(["jobs"], outside.environ)
        assert status == 4
        assert "nobody has logged in" in err

    run_outside(story, tmp_path)


def oidc(issuer, tmp_path):
    """Return a confidential client: the program takes no public ones."""
    secret = tmp_path / "secret"
    secret.write_text("hush")
    return OidcConfig(
        issuer=issuer, client_id="xce", client_secret_file=str(secret), user_claim="sub"
    )


def test_a_user_logs_in_at_a_provider_by_paste(tmp_path, monkeypatch):
    async def story(outside):
        err = io.StringIO()

        def paste():
            page = re.search(r"http://\S+/oauth2/authorize\S+", err.getvalue())[0]
            assert "code_challenge_method=S256" in page
            return press_log_in(page, "alice")

        monkeypatch.setattr(sys, "stdin", Line(paste))
        words = ["login", outside.url, "--paste", "--fingerprint",
                 outside.rest.backend.door.fingerprint]  # fmt: skip
        out = io.StringIO()
        status = await asyncio.to_thread(execute, words, outside.environ, out, err)
        assert status == 0, err.getvalue()
        answer = await outside.call("GET", "/cluster")
        assert answer["user"] == "alice"
        # The role was granted to a group of the provider.
        await outside.call("POST", "/hosts/actions", {"action": "close", "hosts": ["h1"]})

    with provider_program({"alice": {"groups": ["ops"]}}) as issuer:
        run_outside(
            story, tmp_path, oidc=oidc(issuer, tmp_path),
            config={"grants": (GrantConfig(role="operator", groups=("oidc:ops",)),)},
        )  # fmt: skip


def test_a_user_logs_in_at_a_provider_in_a_browser(tmp_path, monkeypatch):
    def browse(page):
        urllib.request.urlopen(press_log_in(page, "alice")).close()

    monkeypatch.setattr(login_module.webbrowser, "open", browse)

    async def story(outside):
        monkeypatch.setattr(sys, "stdin", Line(lambda: "yes"))
        status, _, err = await run(["login", outside.url], outside.environ)
        assert status == 0, err
        # The certificate was shown, and is noted now.
        fingerprint = outside.rest.backend.door.fingerprint
        assert f"sha256 {fingerprint}" in err
        kept = load_login(login_path(outside.environ, outside.url))
        assert (kept["user"], kept["fingerprint"]) == ("alice", fingerprint)
        assert (await run(["jobs"], outside.environ))[0] == 0

    with provider_program({"alice": {}}) as issuer:
        run_outside(story, tmp_path, oidc=oidc(issuer, tmp_path))


def test_one_without_an_account_and_root_are_refused(tmp_path, monkeypatch):
    async def story(outside):
        for subject, said in (("mallory", "has no account"), ("root", "root does not log in")):
            err = io.StringIO()

            def paste(subject=subject, err=err):
                page = re.search(r"http://\S+/oauth2/authorize\S+", err.getvalue())[0]
                return press_log_in(page, subject)

            monkeypatch.setattr(sys, "stdin", Line(paste))
            words = ["login", outside.url, "--paste", "--fingerprint",
                     outside.rest.backend.door.fingerprint]  # fmt: skip
            out = io.StringIO()
            status = await asyncio.to_thread(execute, words, outside.environ, out, err)
            assert status == 4
            assert said in err.getvalue()

    with provider_program({}) as issuer:
        run_outside(
            story, tmp_path, oidc=oidc(issuer, tmp_path), accounts={"alice": 1001, "root": 0}
        )


def test_an_answer_to_another_login_is_not_taken(tmp_path, monkeypatch):
    async def story(outside):
        monkeypatch.setattr(
            sys, "stdin", Line(lambda: "http://127.0.0.1:8765/?code=stolen&state=another")
        )
        words = ["login", outside.url, "--paste", "--fingerprint",
                 outside.rest.backend.door.fingerprint]  # fmt: skip
        status, _, err = await run(words, outside.environ)
        assert status == 1
        assert "not the answer to this login" in err

    with provider_program({}) as issuer:
        run_outside(story, tmp_path, oidc=oidc(issuer, tmp_path))


def test_a_certificate_that_was_not_confirmed_ends_the_login(tmp_path, monkeypatch):
    async def story(outside):
        monkeypatch.setattr(sys, "stdin", Line(lambda: "no"))
        status, _, err = await run(["login", outside.url], outside.environ)
        assert status == 4
        assert "not trusted" in err
        words = ["login", outside.url, "--fingerprint", "ab" * 32]
        status, _, err = await run(words, outside.environ)
        assert status == 4
        assert "another certificate" in err

    run_outside(story, tmp_path)


def test_munge_is_refused_by_name_where_its_library_is_absent(tmp_path, monkeypatch):
    monkeypatch.setattr(munge.ctypes.util, "find_library", lambda _: None)

    async def story(outside):
        words = ["login", outside.url, "--munge", "--fingerprint",
                 outside.rest.backend.door.fingerprint]  # fmt: skip
        status, _, err = await run(words, outside.environ)
        assert status == 1
        assert "libmunge is not installed on this machine" in err
        status, answer = await outside.rest._rest.post(
            "/login", {"way": "munge", "credential": "MUNGE:x:"}
        )
        assert status == 403
        assert "libmunge is not installed on this machine" in answer["detail"]

    run_outside(story, tmp_path, munge=True)


@pytest.mark.parametrize(
    ("answer", "said"),
    [("http://127.0.0.1/?error=access_denied&state=x", "access_denied"), ("", "not the answer")],
)
def test_what_a_provider_answers_instead_of_a_code(answer, said):
    with pytest.raises(login_module.FailedError, match=said):
        login_module._code(answer, "state")
