from xce.model.effect import Launch
from xce.model.job import EndCause, Files, JobSpec, Owner
from xce.model.observation import AttemptEnded
from xce.worker.report import Around, render_report

S = 1_000_000

DONE = """
------------------------------------------------------------
Sender: LSF System <lsfadmin@h1>
Subject: Job 12[3]: <arr[1-5]> in cluster <c1> Done

Job <arr[1-5]> was submitted from host <login> by user <ann> in cluster <c1> at T880
Job was executed on host(s) <2*h1>, in queue <normal>, as user <ann> in cluster <c1> at T900
                            <h2>
</home/ann> was used as the home directory.
</w> was used as the working directory.
Started at T900
Terminated at T990
Results reported at T1000

Your job looked like:

------------------------------------------------------------
# LSBATCH: User input
echo hello
------------------------------------------------------------

Successfully completed.

Resource usage summary:

    CPU time :                                   1.50 sec.
    Max Memory :                                 46 MB
    Average Memory :                             -
    Total Requested Memory :                     100.00 MB
    Delta Memory :                               54.00 MB
    Max Swap :                                   -
    Max Processes :                              4
    Max Threads :                                5
    Run time :                                   90 sec.
    Turnaround time :                            110 sec.

The output (if any) is above this job summary.

"""


def report(end: AttemptEnded, *, error: str = "", mem_mib: int = 100) -> str:
    launch = Launch(
        12, [3], [1],
        JobSpec(name="arr", array="1-5", from_host="login", files=Files(output="o", error=error)),
        Owner("ann", 1, 1), "normal", "p", "c1", (("h1", 2), ("h2", 1)), 3, 880 * S, 0, 0, 0,
        mem_request_mib=mem_mib,
    )  # fmt: skip
    around = Around("echo hello\n", "/w", "/home/ann", 1000 * S, lambda at_us: f"T{at_us // S}")
    return render_report(launch, end, around)


def end(**more: object) -> AttemptEnded:
    return AttemptEnded(
        12, 3, 1, started_age_us=100 * S, ended_age_us=10 * S, user_us=S, system_us=S // 2,
        max_mem_kib=46 * 1024, max_processes=4, max_threads=5, **more,  # type: ignore[arg-type]
    )  # fmt: skip


def test_a_job_that_is_done_is_reported_as_lsf_does() -> None:
    assert report(end()) == DONE


def test_the_status_is_two_lines_above_the_summary() -> None:
    for one, status in (
        (end(exit_code=127), "Exited with exit code 127."),
        (end(exit_code=137, signal=9), "Exited with signal termination: 9."),
        (
            end(exit_code=1, cause=EndCause.OUTPUT, detail="cannot open o"),
            "Exited with exit code 1.",
        ),
    ):
        lines = report(one).splitlines()
        assert lines[lines.index("Resource usage summary:") - 2] == status
        assert lines[3].endswith("in cluster <c1> Exited")


def test_a_cause_stands_on_a_line_of_its_own() -> None:
    lines = report(end(exit_code=140, cause=EndCause.RUNLIMIT)).splitlines()
    assert "TERM_RUNLIMIT: job killed after reaching LSF run time limit." in lines


def test_what_was_killed_as_done_is_reported_as_done() -> None:
    lines = report(end(exit_code=130, signal=2, cause=EndCause.OWNER_DONE)).splitlines()
    assert lines[3].endswith("in cluster <c1> Done")
    place = lines.index("Resource usage summary:")
    assert lines[place - 3 : place - 1] == [
        "TERM_OWNER: job killed by owner.", "Successfully completed."
    ]  # fmt: skip


def test_an_error_file_is_named_behind_everything() -> None:
    text = report(end(), error="err.%J.%I")
    assert text.endswith("PS:\n\nRead file <err.12.3> for stderr output of this job.\n\n")
    assert "PS:" not in report(end(), error="../w/o")


def test_what_is_not_known_is_a_dash() -> None:
    text = report(AttemptEnded(12, 3, 1), mem_mib=0)
    assert "    Max Memory :                                 -\n" in text
    assert "    Delta Memory :                               -\n" in text
