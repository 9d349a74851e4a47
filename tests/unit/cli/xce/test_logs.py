from pathlib import Path

import pytest

from xce.cli.xce.logs import render_line, run_logs
from xce.daemon.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    log = tmp_path / "log"
    log.mkdir()
    for name, seconds in (("controller", (1, 4)), ("worker-h1", (2, 5)), ("worker-h2", (3,))):
        lines = [
            f'{{"at": "2026-01-01T00:00:0{second}.000Z", "level": "info", '
            f'"component": "{name}", "event": "e{second}", "why": "a b"}}\n'
            for second in seconds
        ]
        (log / f"{name}.log").write_text("".join(lines))
    return Settings(tmp_path, is_default=False)


def events(text: str) -> list[str]:
    return [line.split()[3] for line in text.splitlines()]


def test_logs_of_all_daemons_are_shown_in_the_order_of_time(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_logs(settings, daemon=None, count=4, follow=False, as_json=False) == 0
    assert events(capsys.readouterr().out) == ["e2", "e3", "e4", "e5"]


def test_worker_means_every_worker(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_logs(settings, daemon="worker", count=9, follow=False, as_json=False) == 0
    assert events(capsys.readouterr().out) == ["e2", "e3", "e5"]


def test_an_unknown_daemon_is_refused_with_those_that_are_there(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_logs(settings, daemon="controler", count=9, follow=False, as_json=False) == 1
    assert "did you mean 'controller'" in capsys.readouterr().err


def test_what_is_no_json_is_shown_as_it_is() -> None:
    assert render_line("Traceback ...", as_json=False) == "Traceback ..."
    assert render_line("[1]", as_json=False) == "[1]"
