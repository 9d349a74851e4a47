from xce.cli.xcecli.roles import role_lines, tasks_text


def test_each_task_of_a_small_role_is_told():
    tasks = [
        {"host": "h1", "state": "ready", "rank": 0},
        {"host": "h2", "state": "running", "restarts": 1, "why": "is not ready: \x1brefused"},
        {"host": "h3", "state": "restarting", "restarts": 2},
    ]
    text = (
        "0 on h1 ready; 1 on h2 running, restarted 1 time (is not ready: ?refused); "
        "2 on h3 restarting, restarted 2 times"
    )
    assert tasks_text(tasks) == text
    row = {"role_states": [{"role": "decode", "tasks": tasks}]}
    assert role_lines(row) == [("Tasks of decode", text)]
    assert role_lines({}) == []


def test_many_tasks_are_counted_and_only_those_with_something_to_say_are_named():
    tasks = [{"host": f"h{n}", "state": "ready"} for n in range(20)]
    assert tasks_text(tasks) == "20 ready"
    tasks[7] = {"host": "h7", "state": "failed", "why": "ended with exit code 3"}
    assert tasks_text(tasks) == "19 ready, 1 failed; 7 on h7 failed (ended with exit code 3)"
