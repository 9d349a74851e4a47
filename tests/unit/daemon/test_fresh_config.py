import re
from pathlib import Path

import pytest

from xce.config.parse import parse_config
from xce.config.schema import CLUSTER, HOST, LSF, QUEUE
from xce.daemon.config_directory import load_config
from xce.daemon.fresh_config import HostsWanted, machine_name, render_hosts, write_fresh_config
from xce.model.config import HostConfig
from xce.model.errors import ConfigError
from xce.model.processor import Processor, made_up


def hosts(wanted: HostsWanted, *, cpus: int = 8) -> tuple[HostConfig, ...]:
    text = render_hosts(wanted, machine="box", cpus=cpus, mem_mib=10_000)
    return parse_config({"hosts.yaml": text}).hosts


def flat(cores: int) -> tuple[Processor, ...]:
    return made_up({"sockets": 1, "cores": cores, "threads": 1, "numa": 1})


def test_one_host_is_the_machine_whole() -> None:
    assert hosts(HostsWanted()) == (HostConfig(name="box"),)


def test_several_hosts_share_the_machine_with_slots_rounded_up() -> None:
    assert hosts(HostsWanted(workers=3), cpus=8) == tuple(
        HostConfig(name=f"box-{number}", slots=3, mem_mib=3333, processors=flat(3))
        for number in (1, 2, 3)
    )


def test_names_slots_and_memory_can_be_said() -> None:
    wanted = HostsWanted(names="demo[1-2]", slots=16, mem="4G")
    assert hosts(wanted) == tuple(
        HostConfig(name=f"demo{number}", slots=16, mem_mib=4096, processors=flat(16))
        for number in (1, 2)
    )


@pytest.mark.parametrize(
    "wanted",
    [
        HostsWanted(workers=0),
        HostsWanted(workers=100_000),
        HostsWanted(workers=2, names="a,b"),
        HostsWanted(names="a[1-"),
        HostsWanted(names='a"b'),
        HostsWanted(slots=0),
        HostsWanted(mem="lots"),
        HostsWanted(mem="1K"),
    ],
)
def test_options_that_make_no_sense_are_refused(wanted: HostsWanted) -> None:
    with pytest.raises(ConfigError):
        hosts(wanted)


def test_a_fresh_directory_gets_files_that_are_valid(tmp_path: Path) -> None:
    write_fresh_config(tmp_path, HostsWanted(workers=2), cluster_name="chip7")
    config = load_config(tmp_path)
    assert config.cluster_name == "chip7"
    assert [host.name for host in config.hosts] == [f"{machine_name()}-1", f"{machine_name()}-2"]
    assert [queue.name for queue in config.queues] == ["normal"]


def test_what_is_there_stays(tmp_path: Path) -> None:
    write_fresh_config(tmp_path, HostsWanted(workers=2))
    (tmp_path / "queues.yaml").write_text("- name: mine\n")
    before = (tmp_path / "hosts.yaml").read_text()
    write_fresh_config(tmp_path, HostsWanted())
    assert (tmp_path / "queues.yaml").read_text() == "- name: mine\n"
    assert (tmp_path / "hosts.yaml").read_text() == before


def test_options_rewrite_hosts_only_while_nobody_has_edited_them(tmp_path: Path) -> None:
    write_fresh_config(tmp_path, HostsWanted(workers=2))
    write_fresh_config(tmp_path, HostsWanted(names="a,b"))
    assert [host.name for host in load_config(tmp_path).hosts] == ["a", "b"]
    path = tmp_path / "hosts.yaml"
    path.write_text(path.read_text().replace("a,b", "a,c"))
    with pytest.raises(ConfigError, match="was edited"):
        write_fresh_config(tmp_path, HostsWanted(names="a,b"))
    assert [host.name for host in load_config(tmp_path).hosts] == ["a", "c"]


def test_every_key_is_shown_in_the_comments_and_works_when_uncommented(tmp_path: Path) -> None:
    write_fresh_config(tmp_path, HostsWanted(names="g[01-04]"))
    texts = {path.name: path.read_text() for path in tmp_path.iterdir()}
    open_text = re.sub(r"^# (\w+:)", r"\1", texts["xce.yaml"], flags=re.MULTILINE)
    texts["xce.yaml"] = re.sub(r"^#   (\w+:)", r"  \1", open_text, flags=re.MULTILINE)
    texts["queues.yaml"] = re.sub(
        r"^# ([- ] \w+:)", r"\1", texts["queues.yaml"], flags=re.MULTILINE
    )
    parse_config(texts)
    for name, tables in {
        "xce.yaml": (CLUSTER, LSF),
        "queues.yaml": (QUEUE,),
        "hosts.yaml": (HOST,),
    }.items():
        for table in tables:
            for key in table.keys:
                assert f"{key}:" in texts[name], (name, key)


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "hosts.yaml").write_bytes(b"- names: a\n# \xff\n")
    with pytest.raises(ConfigError, match="hosts.yaml:2: is not UTF-8"):
        load_config(tmp_path)
    (tmp_path / "hosts.yaml").unlink()
    (tmp_path / "presets").mkdir()
    with pytest.raises(ConfigError, match="presets: is not built yet"):
        load_config(tmp_path)


def test_leftovers_of_editors_are_nobodys_business(tmp_path: Path) -> None:
    for name in (".hosts.yaml.swp", "hosts.yaml~", "hosts.yaml.bak", "README.md"):
        (tmp_path / name).write_text("{")
    assert load_config(tmp_path).hosts == ()
