"""What `xceadmin hosts adopt` says of what came of it."""

import json

import pytest

from xce.cli.xceadmin.main import main

ROW = {"strangers": 0, "adopting": 0, "unadopted": [], "njobs": 1}
REFUSED = {"job": "12[3]", "attempt": 2, "reason": "there is no queue night"}


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """Rows of hosts, one for each look; the last one stays."""
    rows: list[dict[str, object]] = []

    def call(_api: object, method: str, _path: str, *_: object, **__: object) -> object:
        if method == "POST":
            text = "2 unknown attempts are being adopted"
            return {"results": [{"host": name, "text": text} for name in ("h1", "h2")]}
        return {"hosts": [rows.pop(0) if len(rows) > 1 else rows[0], {**ROW, "name": "h9"}]}

    monkeypatch.setattr("xce.cli.xceadmin.apiserver.Api.call", call)
    return rows


def test_it_waits_until_all_is_told_and_is_content(
    answers: list[dict[str, object]], capsys: pytest.CaptureFixture[str]
) -> None:
    answers += [{**ROW, "name": "h1", "strangers": 2, "adopting": 2}, {**ROW, "name": "h1"}]
    assert main(["hosts", "adopt", "h1", "h2"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "h1: adopted"


def test_what_stays_is_named_with_the_reason_and_is_no_success(
    answers: list[dict[str, object]], capsys: pytest.CaptureFixture[str]
) -> None:
    answers += [{**ROW, "name": "h1", "strangers": 1, "unadopted": [REFUSED]}]
    assert main(["hosts", "adopt", "h1"]) == 1
    said = capsys.readouterr()
    assert said.err == "h1: 12[3], attempt 2, stays: there is no queue night\n"
    assert said.out.endswith("h1: 1 unknown attempts are left\n")
    assert main(["hosts", "adopt", "h1", "--json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)
    assert row == {"name": "h1", "strangers": 1, "adopting": 0, "unadopted": [REFUSED]}


def test_when_a_host_does_not_tell_it_says_so_in_the_end(
    answers: list[dict[str, object]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("xce.cli.xceadmin.hosts.ADOPT_S", 0)
    answers += [{**ROW, "name": "h1", "strangers": 3, "adopting": 2}]
    assert main(["hosts", "adopt", "h1"]) == 1
    assert "3 unknown attempts are left, 2 wait for their hosts" in capsys.readouterr().out
