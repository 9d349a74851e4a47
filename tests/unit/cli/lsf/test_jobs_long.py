"""What the long form of ``bjobs`` says of a submission, and in which order."""

import pytest
from job_rows import NOW, make_row

from xce.cli.lsf.jobs_long import render_long


@pytest.mark.parametrize(
    ("notices", "texts"),
    [
        ([], []),
        (["start"], ["Notify when job begins"]),
        (["done", "exit"], ["Notify when job ends"]),
        (["exit"], ["Notify when job exits"]),
        (["start", "done", "exit"], ["Notify when job begins", "Notify when job ends"]),
    ],
)
def test_the_long_form_tells_of_mail(notices, texts):
    lines = render_long(make_row(notices=notices), NOW, wrapped=False, with_year=False)
    statement = next(line for line in lines if "Submitted from host" in line)
    assert [part for part in statement.rstrip(";").split(", ") if "Notify" in part] == texts


def test_the_long_form_has_the_order_of_lsf():
    row = make_row(
        app="fluid", user_group="chem", group="/a", mail_to="a@b", priority=5, notices=["start"],
        exclusive=True, rerunnable=True, tasks_min=2, tasks_max=2, resreq_asked="span[hosts=1]",
        dependency="done(1)", login_shell="/bin/sh", pre_exec="pre", post_exec="post",
        hosts_asked="n1", named=True,
    )  # fmt: skip
    lines = render_long(row, NOW, wrapped=False, with_year=False)
    heads = [part.split(" <")[0] for part in lines[1].split(", ")]
    assert heads == [
        "Job", "Job Name", "User", "Project", "Application", "User Group", "Job Group", "Mail",
        "Status", "Queue", "Job Priority", "Command",
    ]  # fmt: skip
    asked = [part.split(" <")[0] for part in lines[2].rstrip(";").split(", ")]
    assert asked[asked.index("Notify when job begins") :] == [
        "Notify when job begins", "Re-runnable", "Exclusive Execution", "2 Task(s)",
        "Requested Resources", "Dependency Condition", "Login Shell", "Pre-execute Command",
        "Post-execute Command", "Specified Hosts",
    ]  # fmt: skip
