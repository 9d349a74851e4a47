"""A live cluster's journal replays; the same jobs in a scenario are placed as they were live."""

import json
from pathlib import Path

import msgspec
from live import Live, open_live, until

from xce.cli.xceadmin.scenario_words import CommandWords
from xce.journal.codec import FIRST_CRC
from xce.journal.recover import read_entries
from xce.journal.sqlite import open_sqlite_reader
from xce.model.entry import Entry
from xce.model.record import ConfigApplied
from xce.sim.replay import replay
from xce.sim.scenario_file import parse_scenario
from xce.sim.scenario_journal import run_scenario, write_journal


def live_and_let_run(live: Live) -> None:
    """Run a mix: an array, a parallel job, a dependency, a job that is killed, one that waits."""
    array = live.submit("true", name="array", array="1-20%3")
    wide = live.submit("sleep 0.2", tasks=[3, 3])
    after = live.submit("true", dependency=f"done({wide})")
    long = live.submit("sleep 60")
    live.submit("true", tasks=[9, 9])
    live.until_stat(long, "run")
    live.act("kill", long)
    for job in (wide, after, long):
        live.until_ended(job)
    until_array_ended(live, array)


def until_array_ended(live: Live, job: int) -> None:
    """Wait until every element of an array has ended."""

    def look() -> bool:
        elements = live.row(job)["elements"]
        return elements["done"] + elements["exit"] == sum(elements.values())

    until(look, f"array {job} ends", patience_s=60)


def entries_of(journal: Path) -> list[Entry]:
    reader = open_sqlite_reader(journal)
    try:
        return [entry for batch, _ in read_entries(reader, 0, FIRST_CRC) for entry in batch]
    finally:
        reader.close()


def with_another_size(entry: Entry) -> Entry:
    """Return an entry in which the first host of a configuration has 3 slots instead of 2.

    That is one byte of the stored entry.
    """
    records = []
    for record in entry.records:
        if isinstance(record, ConfigApplied):
            first, *others = record.config.hosts
            assert first.slots == 2
            hosts = (msgspec.structs.replace(first, slots=3), *others)
            config = msgspec.structs.replace(record.config, hosts=hosts)
            record = msgspec.structs.replace(record, config=config)
        records.append(record)
    return msgspec.structs.replace(entry, records=tuple(records))


def check_one_byte_is_found(journal: Path, place: Path) -> None:
    """Change one byte of an input and write the journal anew, so that nothing else tells of it."""
    entries = entries_of(journal)
    write_journal(place / "same", entries, [])
    assert replay(place / "same").is_identical
    changed = [with_another_size(entry) for entry in entries]
    (at,) = [
        place for place, pair in enumerate(zip(entries, changed, strict=True)) if pair[0] != pair[1]
    ]
    before, after = msgspec.msgpack.encode(entries[at]), msgspec.msgpack.encode(changed[at])
    assert sum(one != other for one, other in zip(before, after, strict=True)) == 1
    write_journal(place / "other", changed, [])
    found = replay(place / "other").difference
    assert found is not None
    assert found.view_seq >= entries[at].seq
    assert found.recorded != found.found
    assert (found.job, found.cls) != (0, 0)


def test_a_live_clusters_journal_replays_identically(tmp_path: Path) -> None:
    with open_live() as live:
        live.xce("up", "--hosts", "h[1-2]", "--slots", "2")
        live_and_let_run(live)
        journal = str(live.layout.journal)
        while_up = json.loads(live.xceadmin("replay", journal, "--json"))
        assert while_up["identical"]
        assert while_up["by_decisions"] == 0
        assert while_up["sessions"] >= 5
        # A scheduler that begins anew decides the same, too.
        dead = live.kill("scheduler")
        live.until_replaced("scheduler", dead)
        until_array_ended(live, live.submit("true", array="1-5", name="again"))
        live.xce("down")
        report = replay(live.layout.journal)
        assert report.is_identical, report
        assert report.sessions > while_up["sessions"]
        assert replay(live.layout.journal, fresh=True).is_identical
        check_one_byte_is_found(live.layout.journal, tmp_path)
        assert live.xceadmin("replay").strip() == f"identical: {report.sessions} sessions"


def test_the_same_jobs_in_a_scenario_are_placed_as_they_were_live() -> None:
    jobs: list[tuple[str, dict[str, object]]] = [
        ("bsub -n 3", {"tasks": [3, 3]}),
        ("bsub", {}),
        ("bsub -n 4 -R 'span[ptile=2]'", {"tasks": [4, 4], "resreq": ["span[ptile=2]"]}),
        ("bsub -m 'h3 h2'", {"hosts": "h3 h2"}),
        ("bsub -n 2 -R 'span[hosts=1]'", {"tasks": [2, 2], "resreq": ["span[hosts=1]"]}),
    ]
    with open_live() as live:
        live.xce("up", "--hosts", "h[1-3]", "--slots", "5")
        placed = []
        for _, members in jobs:
            job = live.submit("sleep 60", **members)
            placed.append(dict(live.until_stat(job, "run")["hosts"]))
    lines = ["cluster: {hosts: [{names: 'h[1-3]', slots: 5}]}", "until: 100", "jobs:"]
    lines += [
        f'  - {{id: j{number}, at: {number}, submit: "{line}"}}'
        for number, (line, _) in enumerate(jobs)
    ]
    scenario = parse_scenario("\n".join(lines), file="s", name="s", load_texts=lambda _: {})
    document = run_scenario(scenario, CommandWords())
    simulated = [
        {entry["host"]: entry["slots"] for entry in job["placement"]} for job in document["jobs"]
    ]
    assert [list(hosts.items()) for hosts in simulated] == [list(hosts.items()) for hosts in placed]
