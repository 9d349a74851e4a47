from steps import plan, role

from xce.step.environment import (
    Meeting,
    expand_variables,
    stream_path,
    task_arguments,
    task_environment,
)
from xce.step.plan import TaskPlan


def made():
    found = plan(role("a", 0, 1), role("b", 1, env=("A=1=2", "XCE_PORT=5"), output="%J.%I.%R.%T"))
    attached = role("m", 0)._replace(tasks=(TaskPlan(0, -1, (("XCE_GPUS", "3"),)),), group=7)
    return found._replace(roles=(*found.roles, attached), element="4")


def test_a_task_knows_itself_and_where_the_others_are():
    meeting = Meeting(made())
    meeting.note_host(0, "alpha", [11, 12])
    meeting.note_host(1, "", [21, 22])
    base = {"PATH": "/bin", "XCE_RANK": "0", "CUDA_VISIBLE_DEVICES1": "x", "XCE_STEP_PLAN": "/p",
            "CUDA_VISIBLE_DEVICES": "0"}  # fmt: skip
    env = task_environment(made(), 0, 1, base, meeting)
    assert env == {
        "PATH": "/bin", "CUDA_VISIBLE_DEVICES": "0", "XCE_ROLE": "a", "XCE_ROLE_INDEX": "1",
        "XCE_ROLE_NTASKS": "2", "XCE_RANK": "1", "XCE_HOST": "h1", "XCE_PORT": "21",
        "XCE_HOST_NTASKS": "2", "XCE_HOST_TASK_INDEX": "0",
        "XCE_HOSTS_a": "h0 h1", "XCE_HOSTS_b": "h1", "XCE_HOSTS_m": "h0",
        "XCE_ENDPOINTS_a": "alpha:11 h1:21", "XCE_ENDPOINTS_b": "h1:22",
        "XCE_ENDPOINTS_m": "alpha:12",
    }  # fmt: skip


def test_what_a_role_says_itself_counts():
    env = task_environment(made(), 1, 0, {"A": "0"}, Meeting(made()))
    assert (env["A"], env["XCE_PORT"]) == ("1=2", "5")


def test_what_is_attached_has_no_rank():
    env = task_environment(made(), 2, 0, {"XCE_RANK": "0", "XCE_GPUS": "0"}, Meeting(made()))
    assert "XCE_RANK" not in env
    assert env["XCE_GPUS"] == "3"


def test_variables_of_a_probe_are_filled_in():
    assert expand_variables("$P/a${B}c", {"P": "80", "B": "x"}) == "80/axc"
    assert expand_variables("$NONE", {}) == ""


def test_files_of_a_role_are_called_by_job_role_and_task():
    found = made()
    assert stream_path(found.roles[1].output, found, found.roles[1], 3) == "7.4.b.3"
    assert stream_path("", found, found.roles[0], 0) == ""


def test_a_command_is_for_the_shell_unless_it_names_its_program():
    assert task_arguments(role("a", args=("1",))) == ["/bin/sh", "-c", "run a", "a", "1"]
    script = role("a")._replace(command="#!/usr/bin/python3\n")
    assert task_arguments(script)[3:] == ["a", "#!/usr/bin/python3\n"]
