import tomllib
from pathlib import Path

from xce.client.version import VERSION


def test_the_version_is_the_packages():
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    assert tomllib.loads(text)["project"]["version"] == VERSION
