"""Two controllers on two machines, known to everybody else by key: one ends, the other goes on.

Which of two leads after one was killed is a race of the lease with the node manager that starts it
again. Nothing here depends on it: the leader sleeps until the other one leads.
"""

import contextlib
import signal
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from live import open_live, until
from netns import why_not
from postgres import find_binaries, open_postgres
from site_of_hosts import PORT, Site, SiteLive, open_site

from xce.daemon.fresh_config import machine_name
from xce.daemon.processes import ProcessId, send_signal, wait_for_end
from xce.journal.postgres_line import PostgresTarget
from xce.journal.postgres_reader import PostgresReader

WHY_NOT = why_not() or ("" if find_binaries() is not None else "there is no PostgreSQL")
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
NAME = machine_name()


class Both(NamedTuple):
    site: Site
    dsn: str
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
        dsn = server.make_database("two")
        text = (
            f"journal: {{postgres: '{dsn}', lease_s: 2}}\n"
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
        yield Both(site, dsn, first, second)


def said(machine: SiteLive, event: str) -> int:
    path = machine.layout.log_file("controller")
    return path.read_text().count(f'"event": "{event}"') if path.exists() else 0


def leader_of(both: Both) -> tuple[SiteLive, SiteLive]:
    """Return the machine whose controller leads, as the journal says, and the other one."""
    with contextlib.closing(PostgresReader(PostgresTarget(both.dsn))) as reader:
        pid = int(until(reader.holder, "somebody leads").rpartition(" ")[2])
    leads = both.first.daemons().get("controller")
    is_first = leads is not None and leads.pid == pid
    return (both.first, both.second) if is_first else (both.second, both.first)


@contextlib.contextmanager
def asleep(both: Both) -> Iterator[tuple[SiteLive, SiteLive, ProcessId]]:
    """Yield who has led, who leads since that slept, and the controller that sleeps."""
    leader, other = leader_of(both)
    until(lambda: said(other, "standby-warm"), "the other one stands by")
    (sleeper,) = leader.kill("controller", signal.SIGSTOP)
    try:
        until(lambda: leader_of(both)[0] is other, "the other one leads")
        yield leader, other, sleeper
    finally:
        send_signal(sleeper, signal.SIGCONT)


def check_works(*machines: SiteLive) -> None:
    """Check that users of both machines can work."""
    for machine in machines:
        assert machine.until_ended(machine.submit("true", hosts="h1"))["stat"] == "DONE"


def test_a_leader_that_dies_is_replaced_by_the_other_one(both):
    job = both.second.submit("echo hello", hosts="h1")
    assert both.second.until_ended(job)["stat"] == "DONE", (
        "by the apiserver beside the one that waits"
    )
    long = both.first.submit("sleep 6; echo survived", hosts="h1")
    both.first.until_stat(long, "run")
    # Killed awake, its node manager might have it lead again: so it dies in its sleep.
    with asleep(both) as (dead, leads, sleeper):
        send_signal(sleeper, signal.SIGKILL)
        assert wait_for_end([sleeper], timeout_s=10) == []
        check_works(leads, dead)
        assert leader_of(both) == (leads, dead)
    row = both.first.until_ended(long)
    assert row["stat"] == "DONE"
    assert b"survived" in both.first.output(long)
    dead.until_replaced("controller", [sleeper])
    assert both.site.status_of("h1") == "ok"


def test_a_controller_that_slept_while_another_took_over_is_not_obeyed(both):
    long = both.first.submit("sleep 8; echo survived", hosts="h1")
    both.first.until_stat(long, "run")
    with asleep(both) as (slept, leads, sleeper):
        check_works(leads)
        killed = leads.submit("sleep 100", hosts="h1")
        leads.until_stat(killed, "run")
        leads.act("kill", killed)
        assert leads.until_ended(killed)["cause"] == "TERM_OWNER"
    # It wakes up, finds that its reign is over, and is started anew to stand by.
    slept.until_replaced("controller", [sleeper])
    assert leader_of(both) == (leads, slept)
    check_works(leads, slept)
    for machine in (leads, slept):
        assert machine.row(killed)["cause"] == "TERM_OWNER"
    assert both.first.until_ended(long)["stat"] == "DONE"
    assert b"survived" in both.first.output(long)
    assert both.site.status_of("h1") == "ok"
    assert leader_of(both) == (leads, slept)
