from msgspec.structs import replace

from xce.control.load import ROWS_A_SECOND, LoadGather
from xce.model.command import ApplyConfig
from xce.model.config import HostConfig
from xce.model.ids import SECOND_US
from xce.model.load import INDICES, UNKNOWN
from xce.model.observation import LoadSeen
from xce.state.check import check_state
from xce.state.snapshot import dump, load
from xce.testing.builders import cluster, join_host, leave_host

INTERVAL_US = 15 * SECOND_US


def sample(**values: float) -> tuple[int, ...]:
    return tuple(round(values[name] * 1000) if name in values else UNKNOWN for name in INDICES)


def of_host(controller, host: str) -> list[int]:
    table = controller.state.hosts
    return table.load[:, table.number[host]].tolist()


def test_what_a_host_measures_is_recorded_and_survives_a_snapshot():
    controller = cluster([HostConfig(name=name, slots=4) for name in ("h1", "h2")])
    first, second = sample(r1m=0.5, mem=4000), sample(ut=0.25)
    controller.tell(LoadSeen(("h1", "h2", "nowhere"), (first, second, first)))
    assert of_host(controller, "h1") == list(first)
    assert of_host(controller, "h2") == list(second)
    again = load(dump(controller.state))
    assert again.hosts.load.tolist() == controller.state.hosts.load.tolist()
    check_state(again)


def test_of_a_host_that_is_away_nothing_is_known():
    controller = cluster([HostConfig(name=name, slots=4) for name in ("h1", "h2")])
    controller.tell(LoadSeen(("h1", "h2"), (sample(r1m=1), sample(r1m=2))))
    leave_host(controller, "h1")
    assert set(of_host(controller, "h1")) == {UNKNOWN}
    entries = len(controller.entries)
    controller.tell(LoadSeen(("h1",), (sample(r1m=1),)))
    assert len(controller.entries) == entries, "a late word of it leaves no entry"
    join_host(controller, "h1")
    assert set(of_host(controller, "h1")) == {UNKNOWN}
    assert of_host(controller, "h2") == list(sample(r1m=2))


def test_what_has_hardly_changed_is_not_recorded():
    controller = cluster([HostConfig(name="h1", slots=4)])
    gather = LoadGather()
    now_us = controller.now_us

    def heard(values: tuple[int, ...]) -> LoadSeen | None:
        nonlocal now_us
        now_us += INTERVAL_US
        gather.hear("h1", values)
        seen = gather.take(controller.state, now_us)
        if seen is not None:
            controller.tell(seen)
        return seen

    assert heard(sample(r1m=1.0, mem=10_000, it=100)) is not None
    assert heard(sample(r1m=1.0, mem=10_000, it=100)) is None
    assert heard(sample(r1m=1.1, mem=9_500, it=105)) is None
    assert heard(sample(r1m=1.3, mem=9_500, it=105)) is not None
    assert heard(sample(r1m=1.3, mem=8_000, it=105)) is not None
    assert heard(sample(mem=8_000, it=105)) is not None, "what is unknown now is news"
    assert heard(sample(mem=8_000, it=105)) is None


def test_records_of_load_come_at_a_bounded_rate_and_all_hosts_get_their_turn():
    count = 40 * ROWS_A_SECOND
    names = [f"h{number}" for number in range(count)]
    controller = cluster([HostConfig(name=name, slots=1) for name in names])
    gather, told = LoadGather(), []
    start_us = now_us = controller.now_us
    for name in names:
        gather.hear(name, sample(r1m=9))
    gather.take(controller.state, now_us)
    for _ in range(10):
        now_us += SECOND_US
        for name in names:
            gather.hear(name, sample(r1m=now_us // SECOND_US % 7 + 1))
        seen = gather.take(controller.state, now_us)
        assert seen is None, "no sooner than the interval"
    while len(told) < count:
        now_us += INTERVAL_US
        seen = gather.take(controller.state, now_us)
        assert seen is not None
        told += seen.hosts
        for name in names:
            gather.hear(name, sample(r1m=now_us // SECOND_US % 7 + 1))
    assert sorted(told[:count]) == sorted(names)
    assert len(told) <= ROWS_A_SECOND * (now_us - start_us) // SECOND_US


def test_nothing_is_recorded_where_the_configuration_says_so():
    controller = cluster([HostConfig(name="h1", slots=4)])
    config = replace(controller.state.config, load_interval_us=0)
    controller.tell(ApplyConfig("root", config, is_admin=True), by="root")
    gather = LoadGather()
    gather.hear("h1", sample(r1m=1))
    assert gather.take(controller.state, controller.now_us + INTERVAL_US) is None


def test_a_host_that_is_gone_is_not_told_of():
    controller = cluster([HostConfig(name="h1", slots=4)])
    gather = LoadGather()
    gather.hear("h1", sample(r1m=1))
    gather.forget("h1")
    assert gather.take(controller.state, controller.now_us + INTERVAL_US) is None
