import re
import textwrap

import pytest

from xce.config.parse import parse_config
from xce.config.schema import CLUSTER, FILES, FILES_NOT_BUILT, HOST, LSF, QUEUE, RESOURCE
from xce.model.config import (
    ClusterConfig,
    ExitValues,
    HostConfig,
    PoolConfig,
    QueueConfig,
    ShareConfig,
)
from xce.model.errors import ConfigError
from xce.model.ids import HOUR_US, MINUTE_US


def problems(**files: str) -> str:
    """Return the message for files named by keyword: ``hosts=...`` is ``hosts.yaml``."""
    with pytest.raises(ConfigError) as caught:
        parse(**files)
    return str(caught.value)


def parse(**files: str) -> ClusterConfig:
    return parse_config({f"{name}.yaml": textwrap.dedent(text) for name, text in files.items()})


def test_no_files_are_a_valid_cluster_with_one_queue() -> None:
    assert parse_config({}) == ClusterConfig()


@pytest.mark.parametrize("text", ["", "---\n", "# nothing\n", "~\n"])
def test_an_empty_file_is_as_good_as_none(text: str) -> None:
    assert parse_config(dict.fromkeys(FILES, text)) == ClusterConfig()


def test_a_host_pattern_becomes_hosts_with_their_own_counters_and_attributes() -> None:
    config = parse(
        resources="""
            - {name: scratch, kind: counter, unit: GB}
            - {name: tier, kind: string}
            - {name: weight, kind: number}
            - {name: fast_io, kind: boolean}
            """,
        hosts="""
            - names: "g[01-02]"
              slots: 64
              mem: 512G
              scratch: 100
              attributes: {tier: gold, weight: 1.5, fast_io: true, type: X86_64}
            - {names: old, state: closed}
            """,
    )
    assert config.hosts[0] == HostConfig(
        name="g01",
        slots=64,
        mem_mib=512 * 1024,
        counters={"scratch": 100},
        attributes={"tier": "gold", "weight": 1500, "fast_io": True, "type": "X86_64"},
    )
    assert [host.name for host in config.hosts] == ["g01", "g02", "old"]
    assert config.hosts[2] == HostConfig(name="old", closed=True)


@pytest.mark.parametrize(
    ("mem", "mib"),
    [("2048", 2048), ("1.5G", 1536), ("1T", 1 << 20), ("1100K", 1), ("1.9999M", 1), ("4GiB", 4096)],
)
def test_memory_of_a_host_is_rounded_down(mem: str, mib: int) -> None:
    assert parse(hosts=f"- {{names: a, mem: {mem}}}").hosts[0].mem_mib == mib


def test_a_queue_has_all_its_keys() -> None:
    config = parse(
        hosts="- names: h[1-3]",
        queues="""
            - name: normal
              default: true
              priority: 30
              description: for most jobs
              open: yes
              active: no
              run_limit: 8h
              default_run_limit: 90m
              tasks_min: 2
              tasks_max: 64
              mem_limit: 1.1G
              exclusive: true
              users: [ann, bob]
              hosts: h[1-2]
              policy: fairshare
              fairshare:
                - {name: lab, shares: 3, members: [{name: ann, shares: 2}, {name: bob}]}
                - name: default
              backfill: easy
              reservations: 4
              load_sched: {r1m: 2.5, ut: 80.5%, io: 100, mem: 4G, tmp: 500}
            - name: night
            """,
    )
    assert config.queues == (
        QueueConfig(name="night"),
        QueueConfig(
            name="normal",
            default=True,
            priority=30,
            description="for most jobs",
            active=False,
            run_limit_us=8 * HOUR_US,
            default_run_limit_us=HOUR_US * 3 // 2,
            tasks_min=2,
            tasks_max=64,
            mem_limit_mib=1127,
            exclusive=True,
            users=("ann", "bob"),
            hosts=("h1", "h2"),
            policy="fairshare",
            fairshare=(
                ShareConfig(
                    name="lab",
                    shares=3,
                    members=(ShareConfig(name="ann", shares=2), ShareConfig(name="bob")),
                ),
                ShareConfig(name="default"),
            ),
            backfill="easy",
            reservations=4,
            load_sched={"r1m": 2_500, "ut": 805, "io": 100_000, "mem": 4_096_000, "tmp": 500_000},
        ),
    )


def test_a_queue_says_when_its_jobs_are_unusual() -> None:
    keys = "overrun: 9h, underrun: 2m, idle: 0.15, idle_after: 30m"
    (queue,) = parse(queues=f"- {{name: a, default: true, {keys}}}").queues
    assert (queue.overrun_us, queue.underrun_us) == (9 * HOUR_US, 2 * MINUTE_US)
    assert (queue.idle_milli, queue.idle_after_us) == (150, 30 * MINUTE_US)


def test_the_only_queue_is_the_default() -> None:
    assert parse(queues="- name: only").queues == (QueueConfig(name="only", default=True),)


def test_a_pool_of_supply_is_a_resource_too() -> None:
    config = parse(supply="pools: {lic: 10}")
    assert config.pools == (PoolConfig(name="lic", total=10),)
    assert [(item.name, item.kind) for item in config.resources] == [("lic", "pool")]


def test_the_cluster_file_sets_times_names_and_the_lsf_section() -> None:
    config = parse(
        xce="""
            cluster_name: chip7
            admins: "ann, bob"
            clean_period_s: 90
            term_grace_s: 2m
            orphan_grace_s: forever
            session_gather_ms: 5
            lsf: {unit_for_limits: classic, parse_script: false, product_line: "Any 1.0, x"}
            """
    )
    assert config.cluster_name == "chip7"
    assert config.admins == ("ann", "bob")
    assert config.clean_period_us == 90_000_000
    assert config.term_grace_us == 120_000_000
    assert config.orphan_grace_us == -1
    assert config.session_gather_us == 5_000
    assert config.lsf_unit_for_limits == "classic"
    assert config.lsf_parse_script is False
    assert config.lsf_product_line == "Any 1.0, x"


def test_a_name_that_looks_like_a_flag_or_number_is_a_name() -> None:
    config = parse(hosts="- names: [no, 1e3, 007]")
    assert [host.name for host in config.hosts] == ["007", "1e3", "no"]


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"hosts": "- {names: a, slot: 4}"}, "hosts.yaml:1: [1].slot: .* did you mean 'slots'?"),
        ({"hosts": "- {names: a, slots: 0}"}, "slots: 0 is out of range: expected 1 to"),
        ({"hosts": "- {names: a, slots: many}"}, "'many' is no whole number"),
        ({"hosts": "- {names: a, slots: 1:30}"}, "'1:30' is no whole number"),
        ({"hosts": "- {names: a, slots: [1]}"}, "is a list: expected one value"),
        ({"hosts": "- {names: a, slots: }"}, "has no value"),
        ({"hosts": "- {names: a, mem: 12X}"}, "'12X' is no size"),
        ({"hosts": "- {names: a, scratch: 4}"}, "has no key 'scratch'"),
        ({"hosts": "- {names: a, state: down}"}, "allowed: closed, ok"),
        ({"hosts": "- {names: a, gpus: {count: 2, nvlink: [[0, 2]]}}"}, "there are 2, counted"),
        ({"hosts": "- {names: a, gpus: {count: 2, nvlink: [[0], [0]]}}"}, "names GPU 0 twice"),
        ({"hosts": "- {names: a, gpus: {count: 2, numa: [0]}}"}, "numa has 1 items for 2 GPUs"),
        ({"hosts": "- {names: a, gpus: {model: x}}"}, "count"),
        ({"hosts": "- {names: a, gpus: {count: 1, mig: {0: [big]}}}"}, "'big' is no MIG profile"),
        ({"hosts": "- {names: a, gpus: {count: 1, tpu: 1}}"}, "gpus has no key"),
        ({"hosts": "- {names: a, labels: {swtch: s}}"}, "did you mean 'switch'?"),
        ({"hosts": "- {names: a, labels: {switch: []}}"}, "labels.switch: is a list"),
        ({"hosts": "- {names: a, labels: {switch: ' '}}"}, "expected the name of a switch"),
        (
            {
                "hosts": "- {names: a, labels: {switch: s, rack: r}}\n"
                "- {names: b, labels: {switch: s, rack: q}}"
            },
            "switch 's' lies in rack 'r' by the labels of a, and in 'q' by those of b",
        ),
        ({"topology": "levels: [a, a]"}, "a level stands twice"),
        ({"topology": "levels: []"}, "has 0 levels"),
        ({"topology": "levels: [host]"}, "'host' is always there"),
        ({"topology": "levels: ['1']"}, "is no name of a level"),
        ({"topology": "{levels: [pod], default_level: pd}"}, "did you mean 'pod'?"),
        ({"hosts": "- {names: a, attributes: {tear: x}}"}, "'tear' is not declared"),
        ({"hosts": "- {slots: 4}"}, "needs the key 'names'"),
        ({"hosts": "- {names: a}\n- {names: 'a,b'}"}, "hosts.yaml:2: .*'a' stands in an earlier"),
        ({"hosts": "names: a"}, "is no list"),
        ({"hosts": "- just text"}, "is no mapping"),
        ({"hosts": "- {names: a}\n- {names: b, names: c}"}, "stands twice; the first is in line 2"),
        ({"hosts": "- &x {names: a}\n- *x"}, r"hosts.yaml:2: aliases"),
        ({"hosts": "- !!python/name:os.system {names: a}"}, "tags"),
        ({"hosts": "- {names: a}\n---\n- {names: b}"}, "no valid YAML"),
        ({"hosts": "- {names: a"}, "no valid YAML"),
        ({"hosts": "[" * 1000 + "]" * 1000}, "nested more than"),
        ({"hosts": "- {<<: {names: a}}"}, "has no key '<<'"),
        ({"hosts": "- {? [a] : b}"}, "a key must be one word"),
        ({"queues": "- {name: a, run_limit: 60}"}, "'60' has no unit"),
        ({"queues": "- {name: a, idle: 1.5}"}, "1.5 is no share: expected 0.001 to 1"),
        ({"queues": "- {name: a, idle: 0}"}, "0 is no share"),
        ({"queues": "- {name: a, mem_limit: 60}"}, "'60' has no unit"),
        ({"queues": "- {name: a, default: maybe}"}, "expected true or false"),
        ({"queues": "- {name: a}\n- {name: a, default: true}"}, "'a' is defined twice"),
        ({"queues": "- {name: a}\n- {name: b}"}, "no queue is the default"),
        ({"queues": "- {name: a, default: 1}"}, "expected true or false"),
        (
            {"queues": "- {name: a, default: true}\n- {name: b, default: true}"},
            "second default; 'a'",
        ),
        ({"queues": "- {name: a, hosts: h1}"}, "'h1' is not defined in hosts.yaml"),
        ({"queues": "- {name: 'a b'}"}, "'a b' is no name of a queue"),
        ({"queues": "- {name: all}"}, "built-in meaning"),
        ({"queues": "- {name: a, tasks_min: 5, tasks_max: 2}"}, "tasks_min is above tasks_max"),
        (
            {"queues": "- {name: a, run_limit: 1h, default_run_limit: 2h}"},
            "default_run_limit is above",
        ),
        ({"queues": "- {name: a, load_sched: {cpu: 2}}"}, "'cpu' is no load index; allowed: r15s"),
        ({"queues": "- {name: a, load_sched: {r1m: -2}}"}, "r1m: '-2' is no number from 0 up"),
        ({"queues": "- {name: a, load_sched: {r1m: 5%}}"}, "'5%' is no number"),
        ({"queues": "- {name: a, load_stop: x}"}, "load indices"),
        ({"queues": "- {name: a, order: mem}"}, "'order' is not built yet"),
        ({"queues": "- {name: a, load_sched: {mem: much}}"}, "much"),
        ({"queues": "- {name: a, fairshare: x}"}, "is no list: expected users and groups"),
        (
            {"queues": "- {name: a, fairshare: [{name: u}, {name: g, members: [{name: u}]}]}"},
            "'u' stands twice in the shares",
        ),
        ({"queues": "- {name: a, fairshare: [{shares: 2}]}"}, "a share needs the key 'name'"),
        ({"queues": "- {name: a, backfill: hard}"}, "'hard' is not known"),
        ({"queues": "- {name: a, preempt: [b]}"}, "queue 'b' is not defined"),
        (
            {"queues": "- {name: a, priority: 5, preempt: [b]}\n- {name: b, priority: 5}"},
            "the priority of queue 'b', 5, is not below 5, that of 'a'",
        ),
        ({"queues": "- {name: a, run_windows: soon}"}, "'soon' is no window"),
        ({"queues": "- {name: a, run_windows: 8:00-25:00}"}, "holds no time of day"),
        ({"queues": "- {name: a, run_windows: 1:8:00-9:00}"}, "give a day at both ends"),
        ({"queues": "- {name: a, run_windows: 8-8}"}, "opens and closes at the same time"),
        ({"xce": "time_zone: a b"}, "'a b' is no time zone"),
        ({"resources": "- {name: lic, kind: pool}"}, "'lic' has no amount"),
        ({"resources": "- {name: lic, kind: thing}"}, "'thing' is not known"),
        ({"resources": "- {name: mem, kind: counter}"}, "built-in meaning"),
        ({"resources": "- {name: x}"}, "needs the key 'kind'"),
        (
            {"resources": "- {name: x, kind: counter}", "supply": "pools: {x: 1}"},
            "declared as counter, not as pool",
        ),
        ({"supply": "pools: {lic: -1}"}, "-1 is out of range"),
        ({"supply": "volumes: {}"}, "'volumes' is not built yet"),
        ({"xce": "clean_period: 3"}, "did you mean 'clean_period_s'?"),
        ({"xce": "clean_period_s: soon"}, "is no span"),
        ({"xce": "lsf: {unit_for_limits: mb}"}, "'mb' is not known"),
        ({"xce": "lsf: {product: x}"}, "lsf.product: lsf has no key"),
        ({"xce": "tls: true"}, "'tls' is not built yet"),
        ({"xce": "- a"}, "is no mapping"),
        ({"xce": 'cluster_name: "a\\nb"'}, "is no name of a cluster"),
        ({"host": ""}, "host.yaml: is no configuration file; did you mean 'hosts.yaml'?"),
        ({"users": ""}, "users.yaml: is not built yet"),
    ],
)
def test_a_mistake_is_named_with_what_is_allowed(files: dict[str, str], complaint: str) -> None:
    message = problems(**files)
    assert re.search(complaint.replace("[1].", r"\[1\]."), message), message


def test_all_problems_of_all_files_are_told_at_once_with_their_lines() -> None:
    message = problems(
        hosts="- names: a\n  slots: x\n- names: b\n  mem: y\n",
        queues="- name: q\n  priority: z\n",
        xce="\n\nadmins: '?'\n",
    )
    assert [line.split(": ")[0] for line in message.splitlines()] == [
        "hosts.yaml:2", "hosts.yaml:4", "queues.yaml:2", "xce.yaml:3",
    ]  # fmt: skip


def test_one_wrong_declaration_is_one_problem() -> None:
    message = problems(
        resources="- {name: scratch, kind: contour}", hosts="- {names: a, scratch: 3}"
    )
    assert len(message.splitlines()) == 1


def test_many_problems_are_counted_not_listed() -> None:
    message = problems(hosts="".join(f"- {{names: a{n}, slots: x}}\n" for n in range(500)))
    assert message.splitlines()[-1] == "... and 400 more problems"


def test_a_file_that_is_too_large_is_not_read() -> None:
    assert "larger than" in problems(hosts="# " + "x" * 5_000_000)


def test_no_key_is_both_built_and_not_built() -> None:
    for table in (CLUSTER, HOST, LSF, QUEUE, RESOURCE):
        assert not table.not_built & set(table.keys)
    assert not FILES_NOT_BUILT & set(FILES)


def test_sizes_that_hosts_offer_are_declared_by_it():
    config = parse_config({"hosts.yaml": "- {names: a, tmp: 100G, swp: 512}\n- {names: b}\n"})
    assert [(item.name, item.kind, item.unit) for item in config.resources] == [
        ("swp", "counter", "MB"), ("tmp", "counter", "MB"),
    ]  # fmt: skip
    assert [dict(host.counters) for host in config.hosts] == [{"swp": 512, "tmp": 102_400}, {}]
    assert parse_config({"hosts.yaml": "- {names: a}\n"}).resources == ()


def test_a_queue_says_which_exit_statuses_mean_what():
    text = 'requeue_exit_values: "3 EXCLUDE(7)", success_exit_values: 4, max_requeues: 2'
    (queue,) = parse_config({"queues.yaml": f"- {{name: q, {text}}}\n"}).queues
    assert (queue.requeue_exit_values, queue.success_exit_values, queue.max_requeues) == (
        ExitValues((3, 7), (7,)), ExitValues((4,)), 2,
    )  # fmt: skip
    assert "256" in problems(queues="- {name: q, requeue_exit_values: 256}\n")
    assert "EXCLUDE" in problems(queues="- {name: q, success_exit_values: EXCLUDE(3)}\n")


def test_application_profiles_are_checked_with_the_resources_there_are():
    text = 'resreq: "select[big]", run_limit: 30m, estimate: 5m, mem_limit: 1G, rerunnable: true'
    files = {
        "applications.yaml": f"- {{name: fluid, {text}}}\n- {{name: chip}}\n",
        "resources.yaml": "- {name: big, kind: boolean}\n",
        "xce.yaml": "default_application: chip\n",
    }
    config = parse_config(files)
    assert [app.name for app in config.applications] == ["chip", "fluid"]
    fluid = config.applications[1]
    assert (fluid.run_limit_us, fluid.estimate_us, fluid.mem_limit_mib, fluid.rerunnable) == (
        1_800_000_000, 300_000_000, 1024, True,
    )  # fmt: skip
    assert (config.default_application, config.applications[0].rerunnable) == ("chip", None)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"applications": "- {name: a, resreq: 'select[nosuch]'}"}, "nosuch"),
        ({"applications": "- {name: a}\n- {name: a}"}, "defined twice"),
        ({"applications": "- {name: a, tasks_min: 3, tasks_max: 2}"}, "above tasks_max"),
        ({"applications": "- {name: a, starter: x}"}, "not built yet"),
        ({"xce": "default_application: a"}, "'a' is not defined"),
    ],
)
def test_application_profiles_that_make_no_sense_are_refused(files, expected):
    assert expected in problems(**files)


def test_thresholds_of_load_are_refused_where_no_load_is_recorded():
    queues = "- {name: a, default: true, load_sched: {ut: 80%}}\n- {name: b, load_stop: {mem: 1G}}"
    assert problems(queues=queues, xce="cluster_name: x\nload_interval_s: 0").splitlines() == [
        f"queues.yaml:{line}: [{line}].{key}: does nothing where no load is recorded: remove "
        "it, or let load_interval_s in xce.yaml:2 be more than 0, as in 15s"
        for line, key in ((1, "load_sched"), (2, "load_stop"))
    ]
    assert parse(queues=queues).queues[1].load_stop == {"mem": 1024_000}
    sizes = "- {name: a, load_sched: {mem: 1G}, load_stop: {}}"
    assert parse(queues=sizes, xce="load_interval_s: 0").load_interval_us == 0


def test_a_program_has_a_name_or_a_path_from_the_root() -> None:
    assert parse(xce="mps_control: /opt/bin/mps").mps_control == "/opt/bin/mps"
    assert parse(xce="mps_control: mps-control").mps_control == "mps-control"
    assert "neither an absolute path nor the name of a program" in problems(
        xce="mps_control: bin/mps -d"
    )
