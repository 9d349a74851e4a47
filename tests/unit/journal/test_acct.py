import json
import shlex

from xce.cli.xceadmin.history import each_usage
from xce.cli.xceadmin.main import main
from xce.journal.acct import render_acct
from xce.journal.history import HistoryWriter
from xce.journal.history_reader import HistoryReader
from xce.journal.history_search import Search
from xce.model.command import RequeueJobs
from xce.model.job import EndCause
from xce.testing.builders import (
    chosen,
    cluster,
    kill,
    leave_host,
    place,
    report_ended,
    report_started,
    run_job,
    submission,
    submit,
    tick,
)


def store(path, controller):
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = HistoryWriter(path)
    writer.take(controller.entries, crc=1, epoch=1)
    writer.commit()
    writer.close()


def some():
    controller = cluster(["h1"])
    job = submit(controller, submission('echo "a b"', name='say "it"', project="p"))
    run_job(controller, job, exit_code=3)
    array = submit(controller, submission(elements="1-9:2", name="a"))
    kill(controller, (array, 3, 7))
    return controller, job, array


def test_each_element_that_is_over_is_one_record(tmp_path):
    controller, job, array = some()
    store(tmp_path / "h.db", controller)
    reader = HistoryReader(tmp_path / "h.db")
    told = list(each_usage(reader, Search()))
    assert [(past.job, index) for past, index, _, _ in told] == [
        (job, 0),
        (array, 3),
        (array, 5),
        (array, 7),
    ]
    lines = [render_acct(*one) for one in told]
    reader.close()
    words = shlex.split(lines[0].replace('""it""', "'it'"))
    assert words[:2] == ["JOB_FINISH", "10.1"]
    assert (words[3], words[11], words[12]) == (str(job), "alice", "normal")
    assert "32 1.0" in lines[0]
    assert '"say ""it"""' in lines[0]
    assert '"p" 768 1' in lines[0]
    assert '"a[5]"' in lines[2]
    assert " 14 " in lines[2]


def test_an_attempt_that_was_requeued_or_opened_again_has_a_record_of_its_own(tmp_path, capsys):
    controller = cluster(["h1"])
    job = submit(controller)
    for cause in (EndCause.REQUEUE_OWNER, EndCause.NONE):
        place(controller, job)
        report_started(controller, job)
        if cause:
            controller.tell(RequeueJobs("alice", is_admin=False, selection=chosen(job)))
        report_ended(controller, job, exit_code=1)
    again = RequeueJobs("alice", is_admin=False, selection=chosen(job), states=("EXIT",))
    controller.tell(again)
    run_job(controller, job)
    store(tmp_path / "history" / "history.db", controller)
    base = ["history", "export", "--dir", str(tmp_path)]
    assert main(base) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    told = [(one["attempt"], one["stat"], one["cause"], one.get("requeued")) for one in found]
    assert sorted(told) == [
        (1, "EXIT", "TERM_REQUEUE_OWNER", True),
        (2, "EXIT", "", None),
        (3, "DONE", "", None),
    ]
    assert {(one["cpu_s"], one["max_mem_mib"]) for one in found} == {(0.003, 1.0)}
    assert sorted(one["exit_code"] for one in found) == [0, 1, 1]
    assert main([*base, "--format", "lsb.acct"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(' "true" "true" 0.003000 ' in line for line in lines)
    (line,) = [one for one in lines if shlex.split(one)[-4] == "10"]
    assert " 32 1.0 " in line
    assert '"default" 256 1 ' in line


def test_what_a_lost_host_did_not_tell_is_not_known(tmp_path, capsys):
    controller = cluster(["h1", "h2"])
    job = submit(controller, submission(rerunnable=True))
    place(controller, job)
    report_started(controller, job)
    leave_host(controller, "h1")
    tick(controller, after_us=120_000_000)
    store(tmp_path / "history" / "history.db", controller)
    base = ["history", "export", "--dir", str(tmp_path)]
    assert main(base) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["requeued"], found["cause"]) == (True, "TERM_HOST_LOST")
    assert (found["exit_code"], found["cpu_s"], found["max_mem_mib"]) == (None, None, None)
    assert found["start_at"] <= found["end_at"]
    assert main([*base, "--format", "lsb.acct"]) == 0
    assert ' "true" "true" -1 ' in capsys.readouterr().out


def test_the_command_prints_them_in_either_form(tmp_path, capsys):
    controller, job, _ = some()
    store(tmp_path / "history" / "history.db", controller)
    base = ["history", "export", "--dir", str(tmp_path)]
    assert main([*base, "--format", "lsb.acct"]) == 0
    assert capsys.readouterr().out.count('"JOB_FINISH"') == 4
    assert main([*base, "--user", "alice"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert f'"jobid": {job}, "index": 0, "attempt": 1' in first
    assert main([*base, "--user", "nobody"]) == 0
    assert main([*base, "--to", "1"]) == 0
    assert capsys.readouterr().out == ""
