"""Documents say what is true of this tree: links lead somewhere, names exist, keys are all told."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from xce.client.version import VERSION
from xce.config.schema import CLUSTER, FILES, HOST, LSF, QUEUE, RESOURCE

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md"])
LINK = re.compile(r"\]\((?!https?://|mailto:|#)([^)#\s]+)")
MADE_LATER = re.compile(r"\b(lorem|tbd|coming soon)\b", re.IGNORECASE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_one_title_and_links_that_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    assert len(re.findall(r"^# ", prose, flags=re.MULTILINE)) == 1
    assert MADE_LATER.search(prose) is None
    for target in LINK.findall(prose):
        assert (page.parent / target).exists(), target


def test_every_page_is_in_the_navigation() -> None:
    class Loader(yaml.SafeLoader):
        """Takes the tags of the theme as text."""

    Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)
    navigation = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)["nav"]
    named = set(re.findall(r"[\w./-]+\.md", str(navigation)))
    assert named == {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}


def test_every_dependency_is_explained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = list(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        wanted.extend(extra)
    text = (DOCS / "dependencies.md").read_text()
    names = [re.split(r"[<>=~!\[; ]", item)[0] for item in wanted]
    assert [name for name in names if f"`{name}`" not in text] == []


def test_every_configuration_key_is_told() -> None:
    text = (DOCS / "configuration.md").read_text()
    keys = {*FILES, *(key for table in (CLUSTER, HOST, LSF, QUEUE, RESOURCE) for key in table.keys)}
    assert sorted(key for key in keys if f"`{key}`" not in text) == []


def test_one_version_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION
    assert f"## {VERSION}" in (ROOT / "CHANGELOG.md").read_text()


def test_decision_records_are_numbered_and_whole() -> None:
    records = sorted((DOCS / "decisions").glob("[0-9]*.md"))
    assert [int(record.name[:4]) for record in records] == list(range(1, len(records) + 1))
    for record in records:
        text = record.read_text()
        for part in ("Status:", "## Context", "## Decision", "## Rejected", "## Consequences"):
            assert part in text, f"{record.name}: {part}"


def test_every_alarm_is_told() -> None:
    """What is logged as an error wants a person, who finds in the guide what to do."""
    said = re.compile(r'\b_?log\.(?:error|exception)\(\s*"([a-z-]+)"')
    sources = (ROOT / "src" / "xce").rglob("*.py")
    events = {event for path in sources for event in said.findall(path.read_text())}
    assert len(events) > 20
    events -= {"request-failed"}  # of one request, whose answer says where to look
    text = (DOCS / "operations.md").read_text()
    assert sorted(event for event in events if f"`{event}`" not in text) == []


def test_every_attack_names_its_tests() -> None:
    text = (DOCS / "threat-model.md").read_text()
    lines = [line for line in text.splitlines() if "::test_" in line]
    assert len(lines) > 40
    named: dict[str, set[str]] = {}
    for line in lines:
        file = ""
        for path, name in re.findall(r"`(tests/[\w/]+\.py)?::(test_\w+)`", line):
            file = path or file
            named.setdefault(file, set()).add(name)
    for file, names in named.items():
        defined = re.findall(r"^(?:async )?def (test_\w+)", (ROOT / file).read_text(), re.MULTILINE)
        assert sorted(names - {*defined}) == [], file
    suites = {
        str(path.relative_to(ROOT)) for path in (ROOT / "tests/e2e/security").glob("test_*.py")
    }
    assert suites <= named.keys()
