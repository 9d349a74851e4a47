"""`xceadmin topology import`: real files of fabrics and machines; a change is shown, then made."""

import gzip
import json
from pathlib import Path

import pytest

from xce.cli.xceadmin.main import main
from xce.cli.xceadmin.topology.found import FoundError, linked_domains
from xce.cli.xceadmin.topology.ibnet import read_ibnet
from xce.cli.xceadmin.topology.machine import read_hwloc, read_nvidia_smi
from xce.cli.xceadmin.topology.page import open_page, render_page
from xce.cli.xceadmin.topology.slurm import read_slurm
from xce.cli.xceadmin.topology.table import read_table
from xce.config.names import expand_names, fold_names
from xce.daemon.config_directory import load_config

DATA = Path(__file__).resolve().parents[3] / "data" / "topology"


LEAVES = "".join(
    f"SwitchName=leaf{100 + leaf} Nodes=peta[{10000 + 20 * leaf}-{10019 + 20 * leaf}]\n"
    for leaf in range(20)
)
GROUPS = "SwitchName=grp10 Switches=leaf[100-109]\nSwitchName=grp11 Switches=leaf[110-119]\n\n"
TREE = f"# topology.conf\nSwitchName=root Switches=grp[10,11]\n{GROUPS}{LEAVES}"
BLOCKS = "".join(
    f"BlockName=b{number} Nodes=node[{4 * number - 3:02}-{4 * number:02}]\n"
    for number in range(1, 9)
)


def read(name: str) -> str:
    path = DATA / name
    return gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    config = tmp_path / "config"
    config.mkdir()
    (config / "hosts.yaml").write_text('- {names: "peta[10000-10399],g[1-4]", slots: 4}\n')
    return config


@pytest.fixture
def tree(tmp_path: Path) -> str:
    path = tmp_path / "topology.conf"
    path.write_text(TREE)
    return str(path)


def run(config: Path, *words: str) -> int:
    return main(["topology", "import", *words, "--config", str(config)])


def test_a_tree_of_slurm_has_a_chain_for_each_host():
    found = read_slurm(TREE)
    assert len(found.domains) == 400
    assert found.domains["peta10025"] == ("leaf101", "grp10", "root")
    assert found.notes == ()


def test_trees_that_are_not_connected_are_told():
    found = read_slurm(GROUPS + LEAVES)
    assert found.depth == 2
    assert found.notes == ("not connected: 2 trees, of grp10, grp11",)


def test_blocks_of_blocks():
    found = read_slurm(BLOCKS + "BlockSizes=4,8,16,32,64\n")
    assert found.domains["node06"] == ("b2", "b1..b2", "b1..b4", "b1..b8")
    assert found.domains["node32"] == ("b8", "b7..b8", "b5..b8", "b1..b8")


def test_a_fabric_of_rails_is_told_by_the_leaves_that_hosts_share():
    found = read_ibnet(read("dgx-ndr-3units.cut.ibnetdiscover.gz"))
    units: dict[str, list[str]] = {}
    for host, chain in found.domains.items():
        units.setdefault(chain[0], []).append(host)
    assert sorted(map(len, units.values())) == [14, 15, 16]
    assert len({chain[1] for chain in found.domains.values()}) == 1
    # The hosts of a unit are in one rack row, as their names say.
    assert all(len({name[:3] for name in hosts}) <= 2 for hosts in units.values())
    assert found.notes == ("44 adapters do not say at which host they are: left out",)


def test_pairs_of_leaves_of_a_simulated_fabric_are_units():
    found = read_ibnet(read("two-rails.ibnetdiscover.gz"))
    assert found.notes == ()
    assert found.domains == {
        f"n{host + 1:02}": (f"leaf-{host // 4}-0+1", "leaf-0-0+7") for host in range(16)
    }


def test_switches_that_are_connected_make_the_next_level():
    text = """Switch 8 "A"\n[1] "H1"[1]\n[3] "B"[3]\n\nSwitch 8 "B"\n[1] "H2"[1]\n[3] "A"[3]\n
Hca 2 "H1"\n[1] "A"[1]\n\nHca 2 "H2"\n[1] "B"[1]\n"""
    assert read_ibnet(text).domains == {"H1": ("A", "A+1"), "H2": ("B", "A+1")}


def test_nvlink_and_numa_domains_of_real_machines():
    cube = read_nvidia_smi(read("dgx1-v100-cube-mesh-2nic.txt")).gpus
    assert cube is not None
    assert cube.nvlink == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert cube.numa == (0, 0, 0, 0, 1, 1, 1, 1)
    switched = read_nvidia_smi(read("hgx-h20-8gpu-8nic.txt")).gpus
    assert switched is not None
    assert switched.nvlink == ((0, 1, 2, 3, 4, 5, 6, 7),)
    plain = read_nvidia_smi(read("pcie-4gpu-one-numa.txt")).gpus
    assert plain is not None
    assert (plain.size, plain.nvlink, plain.numa) == (4, (), (0, 0, 0, 0))


def test_gpus_of_lstopo():
    power = read_hwloc(read("power8gpudistances.xml")).gpus
    assert power is not None
    assert (power.size, power.nvlink, power.numa) == (4, ((0, 1), (2, 3)), (0, 0, 1, 1))
    assert "P100" in power.model


@pytest.mark.parametrize(
    ("reader", "text", "what"),
    [
        (read_slurm, "SwitchName=a Switches=b\n", "no switch and no block has nodes"),
        (read_slurm, "hello world", "line 1"),
        (read_slurm, "SwitchName=a Nodes=h1 Switches=b\nSwitchName=b Switches=a", "circle"),
        (read_ibnet, "nothing", "no Switch"),
        (read_nvidia_smi, "nothing", "no table"),
        (read_hwloc, "<a/>", "no topology"),
        (read_hwloc, "<!DOCTYPE x [<!ENTITY a 'b'>]><topology/>", "not plain"),
        (read_table, "a,b\n", "expected a first line"),
        (read_table, "host,switch\nh1\n", "row 2: 1 cells"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(reader, text, what):
    with pytest.raises(FoundError, match=what):
        reader(text)


def test_a_change_is_shown_then_made_once(directory, tree, capsys):
    assert run(directory, tree) == 0
    told = capsys.readouterr()
    assert '+  - {hosts: "peta[10000-10019]", labels: {switch: leaf100, ' in told.out
    assert "nothing was written" in told.err
    assert "nothing is said of 4 hosts: g1 g2 g3 g4" in told.err
    assert not (directory / "topology.yaml").exists()
    assert run(directory, tree, "--apply") == 0
    config = load_config(directory)
    labels = {host.name: host.labels for host in config.hosts}
    assert labels["peta10025"] == {"switch": "leaf101", "block": "grp10", "rack": "root"}
    assert labels["g1"] == {}
    capsys.readouterr()
    assert run(directory, tree, "--apply") == 0
    assert capsys.readouterr().out == "topology.yaml says all of it already\n"


SOURCES = (
    ("two-rails.ibnetdiscover.gz", ()),
    ("dgx-ndr-3units.cut.ibnetdiscover.gz", ()),
    ("hgx-h20-8gpu-8nic.txt", ("--host", "g[1-4]")),
    ("power8gpudistances.xml", ("--host", "g3")),
)


@pytest.mark.parametrize(("name", "words"), SOURCES)
def test_each_source_is_shown_first_and_changes_something_only_once(directory, name, words, capsys):
    fabric = '- {names: "n[01-16]", slots: 4}\n- {names: "b08-p1-dgx-08-c[01-18]", slots: 4}\n'
    with (directory / "hosts.yaml").open("a") as hosts:
        hosts.write(fabric)
    source = str(DATA / name)
    assert run(directory, source, *words, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["changed"], shown["applied"]) == (True, False)
    assert not (directory / "topology.yaml").exists()
    assert run(directory, source, *words, "--apply", "--json") == 0
    assert json.loads(capsys.readouterr().out)["diff"] == shown["diff"]
    written = (directory / "topology.yaml").read_text()
    added = [line[1:] for line in shown["diff"] if line.startswith("+") and line[:3] != "+++"]
    assert added == written.splitlines()
    assert run(directory, source, *words, "--apply", "--json") == 0
    again = json.loads(capsys.readouterr().out)
    assert again["changed"] is False
    assert again["diff"] == []
    assert (directory / "topology.yaml").read_text() == written


def test_levels_get_the_names_that_are_asked_for(directory, tree, capsys):
    assert run(directory, tree, "--levels", "leaf,pod") == 1
    assert "it has 3 levels" in capsys.readouterr().err
    assert run(directory, tree, "--levels", "leaf,pod,site", "--apply") == 0
    config = load_config(directory)
    assert config.levels == ("leaf", "pod", "site")
    assert next(h for h in config.hosts if h.name == "peta10000").labels["pod"] == "grp10"


def test_gpus_of_a_machine_are_those_of_the_hosts_that_are_named(directory, tree, capsys):
    source = str(DATA / "dgx1-v100-cube-mesh-2nic.txt")
    assert run(directory, source) == 1
    assert "--host NAMES" in capsys.readouterr().err
    assert run(directory, source, "--host", "g[1-2]", "--apply") == 0
    config = load_config(directory)
    (host,) = [host for host in config.hosts if host.name == "g2"]
    assert host.gpus is not None
    assert [device.link for device in host.gpus] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert run(directory, tree, "--apply") == 0
    assert next(h for h in load_config(directory).hosts if h.name == "g1").gpus == host.gpus


def test_a_table_names_its_levels_and_hosts_that_are_not_there_are_told(
    directory, tmp_path, capsys
):
    table = tmp_path / "racks.csv"
    table.write_text("host,switch,rack\ng[1-2],s1,r1\ng3,s2,r1\nother,s9,r9\n")
    assert run(directory, str(table), "--apply") == 0
    assert "1 hosts are not in hosts.yaml: other" in capsys.readouterr().err
    labels = {host.name: host.labels for host in load_config(directory).hosts}
    assert labels["g2"] == {"switch": "s1", "rack": "r1"}


def test_pages_are_read_as_they_are_written():
    text = render_page(open_page("levels: [a, b]\ndomains: [{hosts: 'h[1-3]', labels: {a: x}}]\n"))
    assert open_page(text) == open_page(render_page(open_page(text)))
    assert '{hosts: "h[1-3]", labels: {a: x}}' in text


def test_names_are_folded_and_unfolded():
    for names in (["g01", "g02", "g10"], ["a9", "a10", "a11"], ["x", "n1", "n2a"], ["h9", "h09"]):
        assert sorted(expand_names(fold_names(names))) == sorted(names)


def test_domains_of_links_are_complete():
    assert linked_domains(3, {(0, 1), (1, 0), (1, 2), (2, 1)}) == ((0, 1),)
    assert linked_domains(2, set()) == ()
