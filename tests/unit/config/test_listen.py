"""`mode` and `listen` of ``xce.yaml``."""

import pytest

from xce.config.parse import parse_config
from xce.daemon.components import local_hosts
from xce.daemon.fresh_config import machine_name
from xce.model.errors import ConfigError


def test_a_cluster_is_for_work_and_listens_nowhere_unless_it_says_so():
    config = parse_config({})
    assert (config.mode, config.listen) == ("production", "")


def test_mode_and_listen_are_read():
    config = parse_config({"xce.yaml": "mode: test\nlisten: '[::1]:7820'\n"})
    assert (config.mode, config.listen) == ("test", "[::1]:7820")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("mode: tests", "did you mean 'test'"),
        ("listen: 7820", "is no address"),
        ("listen: host", "is no address"),
        ("listen: [a, b]", "is a list"),
    ],
)
def test_what_cannot_be_meant_is_refused(text, complaint):
    with pytest.raises(ConfigError, match=complaint):
        parse_config({"xce.yaml": text})


def test_workers_of_other_machines_are_not_started_here():
    names = f"a1,{machine_name()},b2"
    local = parse_config({"hosts.yaml": f"- {{names: '{names}'}}"})
    assert set(local_hosts(local)) == set(names.split(","))
    files = {"hosts.yaml": f"- {{names: '{names}'}}", "xce.yaml": "listen: 10.0.0.1:7820"}
    assert local_hosts(parse_config(files)) == [machine_name()]
