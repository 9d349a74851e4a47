"""What jobs are told of their processors, and what they are bound to."""

from xce.model.effect import Launch
from xce.model.job import JobSpec, Owner
from xce.model.processor import Binding
from xce.worker.bindings import affinity_hostfile, binding_environment, binding_order
from xce.worker.environ import Account, base_environment, element_environment


def launch(*bindings: Binding) -> Launch:
    return Launch(
        7, [0], [1], JobSpec(command="x"), Owner("ann", 1, 1), "normal", "default", "c",
        (("h1", 2), ("h2", 1)), 3, 0, 0, 0, 0, bindings=[bindings] if bindings else [],
    )  # fmt: skip


HERE = Binding(("0-1,8", "2"), ("0", "1"), is_local_only=True)
THERE = Binding(("4",), ("0",), is_local_only=True)


def test_a_job_is_told_its_own_processors_and_those_of_each_task():
    found = element_environment(launch(HERE, THERE), 0, 1)
    assert found["LSB_BIND_CPU_LIST"] == "0,1,2,8"
    assert (found["RM_CPU_TASK1"], found["RM_CPU_TASK2"]) == ("0,1,8", "2")
    assert (found["LSB_BIND_MEM_LIST"], found["LSB_BIND_MEM_POLICY"]) == ("0,1", "localonly")
    assert found["XCE_BIND_KIND"] == "applied"


def test_the_host_file_has_a_line_for_each_task():
    assert affinity_hostfile(launch(HERE, THERE), 0) == "h1 0,1,8 0 1\nh1 2 1 1\nh2 4 0 1\n"
    plain = Binding(("0",), ("",))
    assert affinity_hostfile(launch(plain), 0) == "h1 0\n"


def test_without_a_memory_policy_nothing_is_said_of_memory():
    found = binding_environment(launch(Binding(("0",), ("",))), 0)
    assert not any(name.startswith("LSB_BIND_MEM") for name in found)


def test_it_is_bound_to_what_its_tasks_have_together():
    assert binding_order(launch(HERE, THERE), 0) == ([0, 1, 2, 8], [0, 1], True)


def test_made_up_processors_are_told_and_not_bound_to():
    given = launch(Binding(("0-3",), ("",), is_told_only=True))
    assert binding_order(given, 0) is None
    assert binding_environment(given, 0)["XCE_BIND_KIND"] == "told-only"


def test_nothing_is_said_to_a_job_without_affinity_and_nothing_is_inherited():
    assert binding_environment(launch(), 0) == {}
    assert binding_order(launch(), 0) is None
    account = Account("ann", 1, 1, (), "/home/ann", "/bin/sh")
    blob = b"LSB_BIND_CPU_LIST=0\0RM_CPU_TASK1=1\0LSB_AFFINITY_HOSTFILE=/x\0A=b"
    base = base_environment(blob, account, "h")
    assert not {"LSB_BIND_CPU_LIST", "RM_CPU_TASK1", "LSB_AFFINITY_HOSTFILE"} & base.keys()
    assert base["A"] == "b"


MIXED = Binding(("0", "4", "5"), ("0", "1", "1"), local_only=(True, False, True))


def test_tasks_with_words_of_their_own_for_memory_have_them_in_the_host_file():
    assert affinity_hostfile(launch(MIXED), 0) == "h1 0 0 1\nh1 4 1 2\nh1 5 1 1\n"


def test_the_shell_of_such_tasks_prefers_their_domains_and_is_kept_to_none():
    found = binding_environment(launch(MIXED), 0)
    assert (found["LSB_BIND_MEM_LIST"], found["LSB_BIND_MEM_POLICY"]) == ("0,1", "localprefer")
    assert binding_order(launch(MIXED), 0) == ([0, 4, 5], [0, 1], False)


def test_where_a_task_has_memory_of_any_domain_the_shell_has_too():
    some = Binding(("0", "4"), ("0", ""), local_only=(True, False))
    assert binding_order(launch(some), 0) == ([0, 4], [], False)
    assert "LSB_BIND_MEM_LIST" not in binding_environment(launch(some), 0)
    assert affinity_hostfile(launch(some), 0) == "h1 0 0 1\nh1 4\n"
