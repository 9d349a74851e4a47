"""An apiserver and its history on a machine of their own, by the steps of ``docs/security.md``."""

import shutil

import pytest
from live import Live, open_live, until
from netns import why_not
from site_of_hosts import Site, SiteLive, open_site

from xce.client.rest import ProblemError, UnreachableError
from xce.daemon.fresh_config import machine_name
from xce.daemon.key_files import load_certificates
from xce.journal.history_reader import HistoryReader

WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
NAME = machine_name()


@pytest.fixture(scope="module")
def pair():
    """The site, and a machine that only users know."""
    with open_site("h1", "front") as site, open_live() as front:
        live = site.live
        live.xceadmin("init", "--listen", str(site.address), "--hosts", "h1", "--cluster", "net")
        live.xce("up")
        token = live.root.parent / "h1.token"
        live.xceadmin("keys", "token", "h1", "--out", str(token))
        # The first address is that of nobody: a controller that stands by does not listen.
        where = f"{site.net.address['x']}:7820,{site.address}"
        site.start_worker("h1", "--enrol", str(token), "--connect", where)
        site.until_status("h1", "ok")
        front.__class__ = SiteLive
        front.net, front.host = site.net, "front"
        open_front(site, front)
        yield site, front


def open_front(site: Site, front: Live) -> None:
    for role in ("apiserver", "history"):
        front.xceadmin("keys", "new", role, NAME)
        site.live.xceadmin("keys", "trust", str(front.layout.keys / f"{role}-{NAME}.crt"))
    shutil.copy(site.controller, front.layout.keys / "controllers.pem")
    for path in site.live.layout.config.iterdir():
        front.configure(path.read_text(), path.name)
    front.configure(f"controllers: ['{site.address}']\n")
    front.xce("up", "--only", "apiserver,history")


def keys_of(site: Site, role: str) -> str:
    return site.key_of(role, NAME)


def test_users_of_that_machine_work_as_everywhere(pair):
    site, front = pair
    job = front.submit("echo hello; echo on $LSB_HOSTS", hosts="h1")
    assert front.until_ended(job)["stat"] == "DONE"
    assert b"on h1" in front.output(job)
    assert site.live.row(job)["stat"] == "DONE", "all apiservers tell the same"
    peers = site.live.xceadmin("peers")
    address = site.net.address["front"]
    for role in ("apiserver", "history"):
        (line,) = [row for row in peers.splitlines() if row.split()[:3] == [role, NAME, "key"]]
        assert address in line
    # It has a history store of its own.
    reader = HistoryReader(front.layout.history_file)
    try:
        until(lambda: reader.job(job, ((0, 0),)), "the job in the history of the front")
    finally:
        reader.close()


def test_it_follows_a_controller_that_was_killed(pair):
    site, front = pair
    dead = site.live.kill("controller")
    site.live.until_replaced("controller", dead)
    assert front.until_ended(front.submit("true"))["stat"] == "DONE"


def test_what_only_another_machine_has_is_refused_with_the_reason(pair):
    _, front = pair
    with front.api() as api, pytest.raises(ProblemError, match="cannot be looked at"):
        api.call("GET", "/jobs", [("at", f"{api.call('GET', '/cluster')['now'] - 1:.3f}")])


def test_it_learns_of_another_key_of_the_controller(pair):
    site, front = pair
    keys = site.live.layout.keys
    site.live.xceadmin("keys", "new", "controller", "spare")
    site.live.xceadmin("keys", "trust", str(keys / "controller-spare.crt"))
    known = front.layout.keys / "controllers.pem"
    until(lambda: len(load_certificates(known)) == 2, "the front knows both keys")
    site.live.xce("down")
    for end in ("crt", "key"):
        (keys / f"controller-spare.{end}").replace(keys / f"controller.{end}")
    site.live.xce("up")
    site.until_status("h1", "ok")
    assert front.until_ended(front.submit("true"))["stat"] == "DONE"


def test_a_revoked_key_ends_it_at_once_and_its_log_says_why_once(pair):
    site, front = pair
    site.live.xceadmin("keys", "revoke", keys_of(site, "apiserver"))
    with front.api(wait_s=0.1) as api, pytest.raises((ProblemError, UnreachableError)):
        api.call("POST", "/jobs", document=front.submission("true"))
    log_file = front.layout.log_file("apiserver")
    until(lambda: "was revoked" in log_file.read_text(), "its log says why")
    log = log_file.read_text()
    assert log.count("was revoked") == 1, log[-2000:]
    # What it has seen is still told, with another key it goes on.
    with front.api() as api:
        assert api.call("GET", "/hosts")["hosts"]
    stem = front.layout.keys / f"apiserver-{NAME}"
    stem.with_suffix(".key").unlink()
    front.xceadmin("keys", "new", "apiserver", NAME)
    site.live.xceadmin("keys", "trust", str(stem.with_suffix(".crt")))
    assert front.until_ended(front.submit("true"))["stat"] == "DONE"


def test_without_its_key_an_apiserver_says_what_to_do(pair):
    _, front = pair
    front.xce("down")
    stem = front.layout.keys / f"apiserver-{NAME}"
    kept = stem.with_suffix(".key").read_bytes()
    stem.with_suffix(".key").unlink()
    front.xce("up", "--only", "apiserver", "--timeout", "5", status=1)
    log = front.layout.log_file("apiserver")
    until(lambda: f"xceadmin keys new apiserver {NAME}" in log.read_text(), "its log says it")
    front.xce("down")
    stem.with_suffix(".key").write_bytes(kept)
