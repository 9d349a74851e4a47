"""Keys are exchanged while everybody works: the controller's, and that of a host."""

import os

import pytest
from live import until
from netns import why_not
from site_of_hosts import open_site

from xce.daemon.key_files import load_certificates

WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
HOSTS = ("h1", "h2", "h3")


@pytest.fixture(scope="module")
def site():
    with open_site(*HOSTS) as site:
        site.install(HOSTS)
        yield site


def test_the_key_of_the_controller_is_rotated_without_enrolling_again(site):
    live = site.live
    keys = live.layout.keys
    old = site.key_of("controller", os.uname().nodename.split(".")[0])
    live.xceadmin("keys", "new", "controller", "spare")
    live.xceadmin("keys", "trust", str(keys / "controller-spare.crt"))
    known = [site.directory(host) / "keys" / "controllers.pem" for host in HOSTS]
    until(lambda: all(len(load_certificates(path)) == 2 for path in known), "hosts know both keys")
    live.xce("down")
    for end in ("crt", "key"):
        (keys / f"controller-spare.{end}").replace(keys / f"controller.{end}")
    live.xce("up")
    for host in HOSTS:
        site.until_status(host, "ok")
    assert "revoked" in live.xceadmin("keys", "revoke", old)
    until(lambda: all(len(load_certificates(path)) == 1 for path in known), "hosts know one key")
    assert all(site.status_of(host) == "ok" for host in HOSTS)
    spare = site.key_of("controller", "spare")
    refused = live.xceadmin("keys", "revoke", spare, status=1)
    assert "the controller's only key" in refused


def test_the_key_of_a_host_is_rotated_under_its_running_job(site):
    live = site.live
    job = live.submit("sleep 6; echo went on", hosts="h1")
    live.until_stat(job, "run")
    (old,) = site.keys_of("worker", "h1")
    token = live.root.parent / "again.token"
    live.xceadmin("keys", "token", "h1", "--out", str(token))
    assert "takes its new key" in site.enrol_again("h1", str(token))
    assert len(site.keys_of("worker", "h1")) == 2, "both are trusted"
    assert site.status_of("h1") != "unavail"
    live.xceadmin("keys", "revoke", old)
    (new,) = site.keys_of("worker", "h1")
    until(lambda: f"{new} " in live.xceadmin("peers"), "it comes with the new key")
    site.until_status("h1", "ok")
    row = live.until_ended(job)
    assert (row["stat"], row["attempt"]) == ("DONE", 1)
    assert live.output(job) == b"went on\n"
