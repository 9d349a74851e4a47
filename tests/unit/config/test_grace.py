"""Spans by which hosts are given up."""

import pytest

from xce.config.parse import parse_config
from xce.model.errors import ConfigError
from xce.model.ids import SECOND_US


def parse(text: str):
    return parse_config({"hosts.yaml": "- {names: h1}", "xce.yaml": text})


def test_the_defaults_give_a_host_two_minutes():
    config = parse("cluster_name: c")
    assert config.host_grace_us == 120 * SECOND_US
    assert config.silence_us == 15 * SECOND_US
    assert config.fence_spans() == (0, 0)
    assert not config.has_fences


def test_rerunnable_jobs_are_fenced_before_the_grace_is_over():
    config = parse("self_fence: true")
    assert config.has_fences
    assert config.fence_spans() == (90 * SECOND_US, 114 * SECOND_US)
    assert config.fence_spans(False) == (0, 0)
    text = "self_fence: true\nfence_after_s: 100"
    assert parse(text).fence_spans(True) == (100 * SECOND_US, 114 * SECOND_US)


def test_a_profile_may_want_a_fence_or_none_for_its_jobs():
    texts = {
        "hosts.yaml": "- {names: h1}",
        "xce.yaml": "fence_after_s: 100",
        "applications.yaml": "- {name: solver, self_fence: true}\n- {name: any}",
    }
    config = parse_config(texts)
    assert config.has_fences
    assert [app.self_fence for app in config.applications] == [None, True]
    assert not parse("cluster_name: c").has_fences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "# x\nhost_grace_s: 20",
            "xce.yaml:2: host_grace_s: 20s is too short: expected more than 20s",
        ),
        ("# x\nheartbeat_s: 60", "xce.yaml:2: heartbeat_s: host_grace_s: 2m is too short"),
        ("heartbeat_s: 60", "expected more than 3m 5s"),
        ("heartbeat_s: 0.01", "expected 0.1 to 3600 seconds"),
        ("fence_after_s: 60", "means nothing without 'self_fence: true'"),
        (
            "self_fence: true\nfence_after_s: 110",
            "xce.yaml:2: fence_after_s: 1m 50s is out of range",
        ),
        ("self_fence: true\nfence_after_s: 10", "expected more than 15s"),
        ("losses_max: 0", "expected 1 to"),
    ],
)
def test_spans_that_make_no_sense_together_are_refused(text: str, expected: str):
    with pytest.raises(ConfigError) as caught:
        parse(text)
    assert expected in str(caught.value)


def test_a_short_beat_allows_a_short_grace():
    assert parse("heartbeat_s: 1\nhost_grace_s: 9").host_grace_us == 9 * SECOND_US
