import subprocess
from pathlib import Path

import pytest

from xce.daemon.config_directory import load_config

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_the_example_configuration_is_valid() -> None:
    config = load_config(EXAMPLES / "config")
    assert len(config.hosts) == 8 + 17 + 1
    assert [queue.name for queue in config.queues if queue.default] == ["normal"]


@pytest.mark.parametrize("path", sorted((EXAMPLES / "jobs").glob("*.sh")), ids=lambda p: p.name)
def test_an_example_script_is_readable_by_the_shell(path: Path) -> None:
    assert subprocess.run(["sh", "-n", path], check=False).returncode == 0
