"""Interactive jobs where they cannot be, and others in queues for them."""

import pytest
from msgspec.structs import replace

from xce.control.terminal import check_terminal
from xce.model.config import QueueConfig
from xce.model.job import Terminal
from xce.testing.builders import cluster, submission

STATE = cluster(("h1",)).state
TALKS = Terminal("Is", 24, 80, "xterm")


def refusal(queue: str = "allow", *, interactive: bool = True, **said: object) -> str:
    asked = submission(**said)
    if interactive:
        asked = replace(asked, spec=replace(asked.spec, terminal=TALKS))
    found = check_terminal(STATE, asked, QueueConfig(name="q", interactive=queue))
    return "" if found is None else found.lsf or found.text


@pytest.mark.parametrize(
    ("queue", "interactive", "text"),
    [
        ("allow", True, ""),
        ("allow", False, ""),
        ("only", True, ""),
        ("only", False, "Queue only accepts interactive jobs"),
        ("refuse", True, "Queue does not accept interactive jobs"),
        ("refuse", False, ""),
    ],
)
def test_a_queue_says_which_jobs_it_takes(queue: str, interactive: bool, text: str) -> None:
    assert refusal(queue, interactive=interactive) == text


def test_an_array_or_what_is_started_anew_cannot_be_interactive() -> None:
    assert "array" in refusal(elements="1-3")
    assert refusal(rerunnable=True) == "Interactive job cannot be rerunnable"
    assert refusal(rerunnable=False) == ""
