"""`sim gpu-trace`: tasks that come and stay, and what each policy makes of them."""

import json
from pathlib import Path

import pytest

from xce.cli.xceadmin.main import main
from xce.sim.gpu_log import GpuLogError, Task, load_nodes, load_tasks
from xce.sim.gpu_trace import POLICIES, TraceOptions, run_trace

NODES = """sn,cpu_milli,memory_mib,gpu,model
n0,8000,1000,2,A
n1,8000,1000,4,B
n2,8000,1000,0,
"""
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec
p0,1000,10,1,500,
p1,1000,10,1,1000,B
p2,1000,10,2,1000,
p3,1000,10,0,0,
p4,1000,10,1,500,A|C
"""


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text(NODES)
    pods.write_text(PODS)
    return nodes, pods


def run(files: tuple[Path, Path], policy: str, arrivals: str = "trace", **options: int):
    return run_trace(
        TraceOptions(nodes=files[0], pods=files[1], policy=policy, arrivals=arrivals, **options)
    )


def test_only_hosts_with_gpus_count_and_equal_tasks_are_equal(files):
    assert [node.name for node in load_nodes(files[0])] == ["n0", "n1"]
    assert load_tasks(files[1])[0] == Task(1000, 10, 1, 500, ())
    assert load_tasks(files[1])[4].models == ("A", "C")
    assert load_tasks(files[1])[3].milli == 0


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_is_given_out_twice_and_a_run_can_be_repeated(files, policy):
    for arrivals in ("trace", "shuffle"):
        found = run(files, policy, arrivals, seed=3)
        assert found == run(files, policy, arrivals, seed=3)
        assert found["gpus"] == 6
        shares = list(found["allocated"].values())
        assert shares == sorted(shares)
        assert all(0 < share <= 100 for share in shares)
        assert found["rejected"] < found["tasks"]


def test_parts_of_gpus_are_put_together(files):
    found = run(files, "best-fit", demand_percent=70)
    # Both halves, one whole GPU of B and two whole ones: only halves may share.
    assert found["rejected"] == 0


def test_a_task_that_does_not_fit_is_gone_for_good(files, tmp_path):
    pods = tmp_path / "wide.csv"
    pods.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1000,10,4,1000\n")
    found = run((files[0], pods), "default")
    assert found["allocated"]["130"] == pytest.approx(66.6667)
    assert found["rejected"] == found["tasks"] - 1


def test_a_file_of_another_form_is_named_with_line_and_column(files, tmp_path):
    with pytest.raises(GpuLogError, match="no column 'cpu_milli'"):
        load_tasks(files[0].with_name("racks.csv").parent / _write(tmp_path, "a,b\n1,2\n"))
    with pytest.raises(GpuLogError, match="num_gpu is 'x', no whole number"):
        load_tasks(_write(tmp_path, PODS.replace("10,2,1000", "10,x,1000")))
    with pytest.raises(GpuLogError, match="cannot be read"):
        load_nodes(tmp_path / "absent.csv")


def _write(directory: Path, text: str) -> Path:
    path = directory / "bad.csv"
    path.write_text(text)
    return path


def test_the_command_prints_what_was_allocated(files, capsys):
    words = ["sim", "gpu-trace", str(files[0]), str(files[1]), "--policy", "fgd", "--seed", "1"]
    assert main([*words, "-o", "json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["allocated"]) == {"95", "100", "130"}
    assert main(words) == 0
    assert "allocated" in capsys.readouterr().out
    assert main(["sim", "gpu-trace", "absent.csv", str(files[1])]) == 2
