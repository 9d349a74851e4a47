"""Limits of processes in ``queues.yaml`` and ``applications.yaml``."""

import pytest

from xce.config.parse import parse_config
from xce.model.errors import ConfigError
from xce.model.process_limits import NO_LIMITS, ProcessLimits

LIMITS = """
  cpu_limit: 2h
  swap_limit: 4G
  process_limit: 10
  thread_limit: 20
  stack_limit: 512K
  data_limit: 1M
  file_limit: 2 GB
  core_limit: 0
"""
READ = ProcessLimits(7_200_000_000, 4 << 20, 10, 20, 512, 1024, 2 << 20, 0)


def test_queues_and_profiles_have_them() -> None:
    files = {
        "queues.yaml": f"- name: q{LIMITS}  default_cpu_limit: 30m\n",
        "applications.yaml": f"- name: a{LIMITS}",
    }
    config = parse_config(files)
    assert (config.queues[0].limits, config.applications[0].limits) == (READ, READ)
    assert config.queues[0].default_cpu_limit_us == 1_800_000_000
    assert parse_config({"queues.yaml": "- name: q\n"}).queues[0].limits == NO_LIMITS


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("stack_limit: 8", "'8' is no size: write e.g. 512K, 8M or 2G"),
        ("core_limit: some", "'some' is no size"),
        ("cpu_limit: 90", "'90' has no unit"),
        ("process_limit: 0", "0 is out of range"),
        ("cpu_limit: 1h\n  default_cpu_limit: 2h", "default_cpu_limit is above cpu_limit"),
    ],
)
def test_what_is_no_limit_is_refused(line: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse_config({"queues.yaml": f"- name: q\n  {line}\n"})
