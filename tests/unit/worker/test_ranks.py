from xce.model.effect import Launch
from xce.model.job import JobSpec, Owner
from xce.worker.ranks import (
    PORT_FIRST,
    PORTS,
    hostfile_text,
    is_parallel,
    meeting_port,
    rankfile_text,
)


def launch(**more: object) -> Launch:
    fields: dict[str, object] = {
        "job": 12, "indices": [0], "attempts": [1], "spec": JobSpec(),
        "owner": Owner("ann", 1000, 1000), "queue": "normal", "project": "proj", "cluster": "c1",
        "hosts": (("h1", 2), ("h2", 1), ("h1", 1)), "tasks_max": 4, "submit_at_us": 0,
        "run_limit_us": 0, "term_grace_us": 0, "kill_interval_us": 0,
    }  # fmt: skip
    return Launch(**(fields | more))  # type: ignore[arg-type]


def test_a_host_file_is_grouped_or_in_rank_order() -> None:
    assert hostfile_text(launch(), grouped=True) == "h1\nh1\nh1\nh2\n"
    assert hostfile_text(launch(), grouped=False) == "h1\nh1\nh2\nh1\n"


def test_the_rank_file_counts_on_each_host() -> None:
    assert rankfile_text(launch()) == "0 h1 0 - 0\n1 h1 1 - 1\n2 h2 0 - 2\n3 h1 2 - 3\n"


def test_the_rank_file_counts_in_each_role() -> None:
    rows = (("router", "h1", 1), ("decode", "h1", 1), ("decode", "h2", 1), ("router", "h1", 1))
    assert rankfile_text(launch(rows=rows)) == (
        "0 h1 0 router 0\n1 h1 1 decode 0\n2 h2 0 decode 1\n3 h1 2 router 1\n"
    )


def test_a_port_is_the_same_each_time_and_another_for_another_attempt() -> None:
    ports = [meeting_port(launch(), 0, attempt) for attempt in (1, 1, 2)]
    assert ports[0] == ports[1] != ports[2]
    many = [meeting_port(launch(job=job), 0, 1) for job in range(500)]
    assert all(PORT_FIRST <= port < PORT_FIRST + PORTS for port in many)
    assert len(set(many)) > 450


def test_one_slot_is_no_parallel_job_unless_it_has_a_role() -> None:
    single = launch(hosts=(("h1", 1),))
    assert not is_parallel(single)
    assert is_parallel(launch(hosts=(("h1", 2),)))
    assert is_parallel(launch(hosts=(("h1", 1),), rows=(("main", "h1", 1),)))
