"""The door to the network, over real TLS: who gets in, with what, and who does not."""

import asyncio
import contextlib
import ssl
import stat
import time
from pathlib import Path

import msgspec
import pytest
from outside import run_outside

from xce.apiserver import app as app_module
from xce.apiserver import denials
from xce.apiserver import door as door_module
from xce.apiserver.tokens import ACCESS, Login
from xce.client.login_file import LoginFileError, load_login, login_path, store_login
from xce.client.remote import RemoteApi, UntrustedError, open_remote
from xce.client.rest import ProblemError, UnreachableError
from xce.daemon import api_door
from xce.daemon.api_door import load_token_key
from xce.model.api import ApiConfig
from xce.model.command import ApplyConfig
from xce.model.record_access import DenialsNoted, LoginRefreshed


def mode_of(path):
    return stat.S_IMODE(Path(path).stat().st_mode)


def test_one_who_has_logged_in_here_works_from_elsewhere(tmp_path):
    async def story(outside):
        await outside.log_in()
        answer = await outside.call("POST", "/jobs", {"command": "true"})
        job = answer["results"][0]["jobid"]
        assert outside.rest.controller.job(job).owner.user == "alice"
        assert (await outside.call("GET", f"/jobs/{job}"))["user"] == "alice"
        cause = outside.rest.controller.entries[-1].cause
        assert (cause.by, cause.origin) == ("alice", "127.0.0.1")

    run_outside(story, tmp_path)


def test_without_a_token_of_this_cluster_nobody_gets_in(tmp_path):
    async def story(outside):
        answer = await outside.log_in()
        good = answer["access_token"]
        assert await outside.status("/cluster", f"Bearer {good}") == (200, None)
        for token, code in (
            ("", "not-logged-in"),
            (good, "not-logged-in"),
            (f"Basic {good}", "not-logged-in"),
            ("Bearer ", "not-logged-in"),
            (f"Bearer {good}x", "bad-token"),
            (f"Bearer {answer['refresh_token']}", "bad-token"),
            ("Bearer root", "bad-token"),
        ):
            assert await outside.status("/cluster", token) == (401, code), token
        assert (await outside.status("/ready", ""))[0] == 200
        assert (await outside.status("/login", ""))[0] == 200

    run_outside(story, tmp_path)


def test_a_login_over_the_network_needs_a_proof(tmp_path):
    async def story(outside):
        await outside.log_in()
        for way, said in (("unix", "unix socket"), ("oidc", "not configured"), ("munge", "MUNGE")):
            with pytest.raises(ProblemError, match=said) as raised:
                await outside.call("POST", "/login", {"way": way})
            assert raised.value.status == 403
        with pytest.raises(ProblemError) as raised:
            await outside.call("POST", "/login", {"way": "unix", "user": "root"})
        assert raised.value.status == 400

    run_outside(story, tmp_path)


def test_an_expired_token_is_refreshed_by_the_client(tmp_path):
    async def story(outside):
        answer = await outside.log_in()
        path = login_path(outside.environ, outside.url)
        now = outside.rest.backend.now
        tokens = outside.rest.backend.logins.tokens
        tokens._clock = lambda: now() + 1_000
        assert (await outside.status("/cluster", f"Bearer {answer['access_token']}")) == (
            401, "token-expired",
        )  # fmt: skip
        store_login(path, {**answer, "access_expires_at": time.time() + 900})
        assert (await outside.call("GET", "/cluster"))["user"] == "alice"
        assert load_login(path)["access_token"] != answer["access_token"]
        assert mode_of(path) == 0o600
        # The login itself ends, and then nothing can be refreshed.
        tokens._clock = lambda: now() + 13 * 3_600
        with pytest.raises(ProblemError) as raised:
            await outside.call("GET", "/cluster")
        assert (raised.value.status, raised.value.code) == (401, "not-logged-in")

    run_outside(story, tmp_path)


async def exchange(outside, token):
    """Show a token with which a login is prolonged; return status, code and answer."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with outside.rest.session.post(
        f"{outside.url}/xce/v1/login/refresh", json={"refresh_token": token}, ssl=context
    ) as answer:
        document = await answer.json()
        return answer.status, document.get("code"), document


def test_who_shows_a_token_that_was_exchanged_before_ends_the_login(tmp_path):
    async def story(outside):
        stolen = (await outside.log_in())["refresh_token"]
        other = await outside.log_in()
        path = login_path(outside.environ, outside.url)
        status, _, owner = await exchange(outside, stolen)
        assert status == 200
        # An answer may be lost, and commands run side by side: for a minute it is borne with.
        status, _, again = await exchange(outside, stolen)
        assert (status, again["user"]) == (200, "alice")
        status, _, owner = await exchange(outside, owner["refresh_token"])
        assert status == 200
        assert await outside.status("/cluster", f"Bearer {owner['access_token']}") == (200, None)
        assert (await exchange(outside, stolen))[:2] == (401, "token-reused")
        # Whose it was, too, has nothing left: who of the two is the thief cannot be told.
        assert (await exchange(outside, owner["refresh_token"]))[:2] == (401, "token-revoked")
        for token in (owner, again):
            assert await outside.status("/cluster", f"Bearer {token['access_token']}") == (
                401, "token-revoked",
            )  # fmt: skip
        assert await outside.status("/cluster", f"Bearer {other['access_token']}") == (200, None)
        # It is noted, for the audit.
        await outside.rest.until(
            lambda: any(
                row.permission == "login" and "used before" in row.about
                for entry in outside.rest.controller.entries
                for record in entry.records
                if isinstance(record, DenialsNoted)
                for row in record.rows
            )
        )
        # The commands of who is thrown out say so.
        store_login(path, {**owner, "access_expires_at": 0})
        with pytest.raises(ProblemError, match="log in again"):
            await outside.call("GET", "/cluster")

    run_outside(story, tmp_path)


def test_commands_that_run_side_by_side_prolong_a_login_once(tmp_path):
    async def story(outside):
        outside.rest.controller.now_us = time.time_ns() // 1_000  # the commands' own clock
        answer = await outside.log_in()
        path = login_path(outside.environ, outside.url)
        store_login(path, {**answer, "access_expires_at": 0})
        before = len(outside.rest.controller.entries)
        found = await asyncio.gather(*(outside.call("GET", "/cluster") for _ in range(8)))
        assert {item["user"] for item in found} == {"alice"}
        exchanged = [
            record
            for entry in outside.rest.controller.entries[before:]
            for record in entry.records
            if isinstance(record, LoginRefreshed)
        ]
        assert [record.turn for record in exchanged] == [1]
        assert load_login(path)["refresh_token"] != answer["refresh_token"]
        assert mode_of(f"{path}.lock") == 0o600

    run_outside(story, tmp_path)


def test_a_revoked_login_ends_at_once(tmp_path):
    async def story(outside):
        answer = await outside.log_in()
        await outside.call("POST", "/logins/revoke", {"session": answer["session"]})
        for token in (answer["access_token"], answer["refresh_token"]):
            assert (await outside.status("/cluster", f"Bearer {token}"))[0] == 401
        with pytest.raises(ProblemError, match="revoked"):
            await outside.call("GET", "/cluster")
        other = await outside.log_in()
        assert (await outside.status("/cluster", f"Bearer {other['access_token']}"))[0] == 200
        await outside.call("POST", "/logins/revoke", {})
        assert await outside.status("/cluster", f"Bearer {other['access_token']}") == (
            401, "token-revoked",
        )  # fmt: skip

    run_outside(story, tmp_path)


def test_streams_end_with_the_login_that_opened_them(tmp_path):
    async def story(outside):
        answer = await outside.log_in()
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        headers = {"Authorization": f"Bearer {answer['access_token']}"}
        url = f"{outside.url}/xce/v1/watch"
        async with outside.rest.session.get(url, headers=headers, ssl=context) as stream:
            assert stream.status == 200
            await stream.content.readline()
            began = time.monotonic()
            await outside.call("POST", "/logins/revoke", {"session": answer["session"]})
            await asyncio.wait_for(stream.content.read(), 10)
            assert time.monotonic() - began < 5

    run_outside(story, tmp_path)


def test_a_token_of_one_whose_account_is_gone_or_another_counts_no_more(tmp_path):
    accounts = {"alice": 1001}

    async def story(outside):
        answer = await outside.log_in()
        token = f"Bearer {answer['access_token']}"
        assert (await outside.status("/cluster", token))[0] == 200
        accounts["alice"] = 1007
        assert await outside.status("/cluster", token) == (401, "token-revoked")
        del accounts["alice"]
        assert await outside.status("/cluster", token) == (401, "token-revoked")
        with pytest.raises(ProblemError):
            await outside.call("POST", "/login/refresh",
                               {"refresh_token": answer["refresh_token"]})  # fmt: skip

    run_outside(story, tmp_path, accounts=accounts)


def test_a_login_at_a_provider_never_makes_root(tmp_path):
    async def story(outside):
        rest = outside.rest
        now = rest.backend.now()
        login = Login("root", 0, "s", int(now * 1e6), int(now) + 100, "oidc")
        token, _ = rest.backend.logins.tokens.write(ACCESS, login, "xce:xce", life_s=60)
        assert await outside.status("/cluster", f"Bearer {token}") == (401, "token-revoked")

    run_outside(story, tmp_path, accounts={"root": 0})


def test_who_guesses_is_slowed_down_and_noted(tmp_path, monkeypatch):
    monkeypatch.setattr(denials, "GATHER_S", 0.01)
    monkeypatch.setattr(app_module, "STRANGER_PER_S", 1.0)

    async def story(outside):
        found = [(await outside.status("/cluster", f"Bearer x{n}"))[0] for n in range(12)]
        assert 429 in found
        assert set(found) == {401, 429}
        rest = outside.rest
        await rest.until(lambda: rest.controller.entries[-1].cause.kind == "note-denials")
        (row,) = rest.controller.entries[-1].records[0].rows[:1]
        assert (row.user, row.permission, row.origin) == ("", "login", "127.0.0.1")

    run_outside(story, tmp_path)


def test_the_client_sends_nothing_to_whom_it_does_not_trust(tmp_path):
    async def story(outside):
        answer = await outside.log_in()
        path = login_path(outside.environ, outside.url)
        store_login(path, {**answer, "fingerprint": "0" * 64})
        with pytest.raises(UntrustedError, match="another certificate"):
            await outside.call("GET", "/cluster")
        store_login(path, {**answer, "fingerprint": ""})
        with pytest.raises(UntrustedError) as raised:
            await outside.call("GET", "/cluster")
        assert raised.value.fingerprint == answer["fingerprint"]
        # With the certificate itself as the authority the name is checked too.
        ca_file = str(tmp_path / "keys" / api_door.CERTIFICATE)
        store_login(path, {**answer, "fingerprint": "", "ca_file": ca_file})
        assert (await outside.call("GET", "/cluster"))["user"] == "alice"

    run_outside(story, tmp_path)


def test_a_login_file_that_is_open_to_others_is_not_used(tmp_path):
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    path = login_path(environ, "https://front:7823")
    assert "/xce/logins/front_7823.json" in path
    store_login(path, {"user": "ann"})
    assert load_login(path) == {"user": "ann"}
    Path(path).chmod(0o644)
    with pytest.raises(LoginFileError, match="closed to others"):
        load_login(path)
    with pytest.raises(ProblemError, match="closed to others"):
        open_remote("https://front:7823", environ)
    Path(path).unlink()
    Path(path).symlink_to("/etc/passwd")
    with pytest.raises(LoginFileError):
        load_login(path)
    Path(path).unlink()
    Path(path).parent.chmod(0o777)
    with pytest.raises(LoginFileError, match="others may write there"):
        store_login(path, {})
    with pytest.raises(ProblemError, match="nobody has logged in"):
        open_remote("https://front:7823", environ)
    with pytest.raises(UnreachableError, match="expected https"):
        RemoteApi("http://front:1")


def test_only_tls_1_3_is_spoken(tmp_path):
    async def story(outside):
        host, _, port = outside.url.removeprefix("https://").partition(":")
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection(host, int(port), ssl=context)
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /xce/v1/cluster HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200" not in await asyncio.wait_for(reader.read(), 5)
        writer.close()

    run_outside(story, tmp_path)


def test_a_connection_that_says_nothing_is_closed_and_their_number_is_bounded(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(door_module, "SILENT_S", 0.2)
    monkeypatch.setattr(door_module, "OF_ADDRESS_MAX", 5)

    async def story(outside):
        host, _, port = outside.url.removeprefix("https://").partition(":")
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        opened = []
        for _ in range(8):
            with contextlib.suppress(OSError):
                opened.append(await asyncio.open_connection(host, int(port), ssl=context))
        began = time.monotonic()
        for reader, _ in opened:
            with contextlib.suppress(OSError):
                assert await asyncio.wait_for(reader.read(), 5) == b""
        assert time.monotonic() - began < 3
        for _, writer in opened:
            writer.close()
        await asyncio.sleep(0.05)
        assert (await outside.status("/ready", ""))[0] == 200

    run_outside(story, tmp_path)


def test_the_door_follows_the_configuration(tmp_path, monkeypatch):
    monkeypatch.setattr(api_door, "LOOK_S", 0.01)

    async def story(outside):
        rest = outside.rest
        config = rest.controller.state.config
        rest.controller.tell(
            ApplyConfig("root", msgspec.structs.replace(config, api=ApiConfig()), is_admin=True),
            by="root",
        )
        rest.link.pump()
        await rest.until(lambda: not rest.backend.door.url)
        with pytest.raises(OSError):  # noqa: PT011 - whichever the system says
            await outside.status("/ready", "")

    run_outside(story, tmp_path)


def test_the_secrets_are_made_once_and_closed_to_others(tmp_path):
    first = load_token_key(tmp_path)
    assert load_token_key(tmp_path) == first
    assert len(first) == 32
    assert stat.S_IMODE((tmp_path / api_door.TOKEN_KEY).stat().st_mode) == 0o600
    (tmp_path / api_door.TOKEN_KEY).write_bytes(b"short")
    with pytest.raises(api_door.DoorError, match="damaged"):
        load_token_key(tmp_path)
