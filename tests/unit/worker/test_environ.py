from xce.model.effect import Launch
from xce.model.job import Files, JobSpec, Owner
from xce.worker.environ import (
    DEFAULT_PATH,
    Account,
    HostFiles,
    base_environment,
    element_environment,
    launch_environment,
)

FILES = HostFiles("/f", "/r")
ANN = Account("ann", 1000, 1000, (1000,), "/home/ann", "/bin/bash")


def launch(**more: object) -> Launch:
    fields: dict[str, object] = {
        "job": 12, "indices": [3], "attempts": [1],
        "spec": JobSpec(name="arr", command="cmd", from_host="login",
                        files=Files(output="o.%J.%I", error="e")),
        "owner": Owner("ann", 1000, 1000), "queue": "normal", "project": "proj", "cluster": "c1",
        "hosts": (("h1", 2), ("h2", 1)), "tasks_max": 4, "submit_at_us": 0, "run_limit_us": 0,
        "term_grace_us": 0, "kill_interval_us": 0, "resreq": "rusage[mem=1]",
        "array_end": 9, "array_step": 2,
    }  # fmt: skip
    return Launch(**(fields | more))  # type: ignore[arg-type]


def test_the_submitters_environment_is_kept_but_for_what_lsf_never_propagates() -> None:
    blob = b"A=1\0B=x=y\0EMPTY=\0HOME=/other\0PWD=/p\0TERM=xterm\0LSB_JOBID=7\0LSB_SUB_X=1\0"
    blob += b"LSB_DJOB_NUMPROC=8\0XCE_JOBID=7\0XCE_ATTEMPT_MARK=m\0LSB_SUBMITTER=z\0noequals\0=x"
    base = base_environment(blob, ANN, "h1")
    assert base == {
        "PATH": DEFAULT_PATH, "A": "1", "B": "x=y", "EMPTY": "", "LSB_SUBMITTER": "z",
        "HOME": "/home/ann", "USER": "ann", "LOGNAME": "ann", "SHELL": "/bin/bash",
        "HOSTNAME": "h1",
    }  # fmt: skip


def test_a_job_is_told_its_group_and_the_root_where_it_has_none() -> None:
    files = HostFiles("g", "r")
    for group, told in (("/a/b", "/a/b"), ("", "/")):
        found = launch_environment(
            launch(group=group), cwd="/", script="s", files=files, submit_cwd="/"
        )
        assert found["LSB_JOBGROUP"] == told


def test_bytes_that_are_no_utf_8_survive() -> None:
    value = base_environment(b"X=\xff\xfe", ANN, "h")["X"]
    assert value.encode("utf-8", "surrogateescape") == b"\xff\xfe"


def test_a_launch_says_who_where_and_how_many() -> None:
    found = launch_environment(launch(), cwd="/w/x", script="/s/1", files=FILES, submit_cwd="/w")
    assert found["LSB_HOSTS"] == "h1 h1 h2"
    assert found["LSB_MCPU_HOSTS"] == "h1 2 h2 1"
    assert (found["LSB_DJOB_NUMPROC"], found["LSB_MAX_NUM_PROCESSORS"]) == ("3", "4")
    assert (found["XCE_NTASKS"], found["XCE_HOST_NTASKS"]) == ("3", "2")
    assert (found["PWD"], found["LS_SUBCWD"]) == ("/w/x", "/w")
    assert (found["LSB_JOBINDEX_STEP"], found["LSB_JOBINDEX_END"]) == ("2", "9")
    assert found["LSB_EFFECTIVE_RSRCREQ"] == "rusage[mem=1]"
    single = launch(array_end=0)
    assert "LSB_JOBINDEX_END" not in launch_environment(
        single, cwd="/", script="", files=FILES, submit_cwd="/"
    )


def test_a_host_list_that_the_kernel_would_not_take_is_left_out() -> None:
    huge = launch(hosts=(("a-rather-long-host-name", 10_000),))
    found = launch_environment(huge, cwd="/", script="", files=FILES, submit_cwd="/")
    assert "LSB_HOSTS" not in found
    assert found["LSB_MCPU_HOSTS"] == "a-rather-long-host-name 10000"


def test_an_element_has_its_index_in_name_and_files() -> None:
    found = element_environment(launch(), 3, 2)
    assert found == {
        "LSB_JOBINDEX": "3", "LSB_BATCH_JID": "12[3]", "LSB_JOBNAME": "arr[3]",
        "XCE_JOBINDEX": "3", "XCE_ATTEMPT": "2", "LSB_OUTPUTFILE": "o.12.3",
        "LSB_ERRORFILE": "e", "MASTER_ADDR": "h1", "MASTER_PORT": found["MASTER_PORT"],
    }  # fmt: skip
    plain = element_environment(launch(spec=JobSpec(command="sleep 1")), 0, 1)
    assert (plain["LSB_BATCH_JID"], plain["LSB_JOBNAME"]) == ("12", "sleep 1")


def test_hosts_that_stand_apart_in_rank_order_are_together_where_lsf_groups_them() -> None:
    given = launch(hosts=(("h1", 1), ("h2", 2), ("h1", 1)))
    found = launch_environment(given, cwd="/", script="", files=FILES, submit_cwd="/")
    assert found["LSB_MCPU_HOSTS"] == "h1 2 h2 2"
    assert found["LSB_HOSTS"] == "h1 h1 h2 h2"
    assert (found["LSB_DJOB_HOSTFILE"], found["LSB_DJOB_RANKFILE"]) == ("/f", "/r")
    assert found["XCE_HOST_NTASKS"] == "2"


def test_a_job_with_roles_is_told_its_own_and_the_hosts_of_each() -> None:
    given = launch(rows=(("router", "h1", 1), ("decode", "h1", 1), ("decode", "h2", 1)))
    files = HostFiles("/f", "/r", "/k")
    found = launch_environment(given, cwd="/", script="", files=files, submit_cwd="/")
    assert (found["XCE_ROLE"], found["XCE_ROLE_INDEX"], found["XCE_RANK"]) == ("router", "0", "0")
    assert (found["XCE_HOSTS_router"], found["XCE_HOSTS_decode"]) == ("h1", "h1 h2")
    assert found["XCE_RANKFILE"] == "/k"


def test_a_job_with_one_task_has_nobody_to_meet() -> None:
    single = launch(hosts=(("h1", 1),))
    assert "MASTER_ADDR" not in element_environment(single, 3, 1)
    assert "XCE_RANK" not in launch_environment(
        single, cwd="/", script="", files=FILES, submit_cwd="/"
    )
