"""Two controllers on two machines, known to everybody else by key: one dies, the other goes on."""

import signal
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from live import open_live, until
from netns import why_not
from postgres import find_binaries, open_postgres
from site_of_hosts import PORT, Site, SiteLive, open_site

from xce.daemon.fresh_config import machine_name

WHY_NOT = why_not() or ("" if find_binaries() is not None else "there is no PostgreSQL")
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
NAME = machine_name()


class Both(NamedTuple):
    site: Site
    first: SiteLive
    second: SiteLive


def give_keys(machine: SiteLive) -> list[str]:
    """Make the keys of a machine's components; return the certificates that must be trusted."""
    for role in ("apiserver", "history", "scheduler"):
        machine.xceadmin("keys", "new", role, NAME)
    keys = machine.layout.keys
    return [str(path) for path in sorted(keys.glob(f"*-{NAME}.crt"))]


@pytest.fixture
def both() -> Iterator[Both]:
    """Installed by the steps of ``docs/operations.md``."""
    with open_site("h1", "b") as site, open_live() as second, open_postgres() as server:
        first = site.live
        second.__class__ = SiteLive
        second.net, second.host = site.net, "b"
        addresses = f"{site.net.address['ctl']}:{PORT}", f"{site.net.address['b']}:{PORT}"
        text = (
            f"journal: {{postgres: '{server.make_database('two')}', lease_s: 2}}\n"
            f"controllers: ['{addresses[0]}', '{addresses[1]}']\n"
        )
        first.xceadmin("init", "--listen", f"0.0.0.0:{PORT}", "--hosts", "h1", "--cluster", "net")
        first.configure(text)
        for path in first.layout.config.iterdir():
            second.configure(path.read_text(), path.name)
        second.xceadmin("keys", "new", "controller", "b")
        own = second.layout.keys
        for end in ("key", "crt"):
            (own / f"controller-b.{end}").rename(own / f"controller.{end}")
        certificates = [*give_keys(first), *give_keys(second)]
        known = b"".join(
            (machine.layout.keys / "controller.crt").read_bytes() for machine in (first, second)
        )
        for machine in (first, second):
            (machine.layout.keys / "controllers.pem").write_bytes(known)
        first.xce("up")
        first.xceadmin(
            "keys", "trust", str(own / "controller.crt"), "--role", "controller", "--name", "b"
        )
        for certificate in certificates:
            first.xceadmin("keys", "trust", certificate)
        second.xce("up", "--only", "controller,scheduler,history,apiserver")
        token = first.root.parent / "h1.token"
        first.xceadmin("keys", "token", "h1", "--out", str(token))
        site.start_worker("h1", "--enrol", str(token), "--connect", ",".join(addresses))
        site.until_status("h1", "ok")
        yield Both(site, first, second)


def said(machine: SiteLive, event: str) -> int:
    path = machine.layout.log_file("controller")
    return path.read_text().count(f'"event": "{event}"') if path.exists() else 0


def lose_the_leader(first: SiteLive, second: SiteLive, killed: SiteLive) -> None:
    """Kill a controller and wait until there is one that leads, if the dead one did."""

    def leads() -> int:
        return said(first, "controller-started") + said(second, "controller-started")

    before, was_leader = leads(), said(killed, "controller-started") > 0
    killed.kill("controller", signal.SIGKILL)
    if was_leader:
        until(lambda: leads() > before, "one leads again")


def test_the_work_goes_on_whichever_controller_dies(both):
    site, first, second = both
    job = second.submit("echo hello", hosts="h1")
    assert second.until_ended(job)["stat"] == "DONE", "by the apiserver beside the one that waits"
    long = first.submit("sleep 6; echo survived", hosts="h1")
    first.until_stat(long, "run")
    until(lambda: said(second, "standby-warm"), "the second stands by")
    # Which of them leads then is a race of the lease with the node manager that starts it again.
    lose_the_leader(first, second, first)
    for machine in (first, second):
        assert machine.until_ended(machine.submit("true", hosts="h1"))["stat"] == "DONE"
    row = first.until_ended(long)
    assert row["stat"] == "DONE"
    assert b"survived" in first.output(long)
    lose_the_leader(first, second, second)
    for machine in (second, first):
        assert machine.until_ended(machine.submit("true", hosts="h1"))["stat"] == "DONE"
    assert site.status_of("h1") == "ok"
