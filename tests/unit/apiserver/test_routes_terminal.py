"""Terminals of interactive jobs over REST: what is told while a job starts, runs and is over."""

import pytest
from rest_cluster import run_rest

from xce.cli.lsf.interactive import read_frames
from xce.net.message import TerminalPiece
from xce.testing.builders import place, report_ended, report_started

NONE = TerminalPiece(1, 0, b"", is_over=True, error="there is no terminal")
"""What a host says that has not opened it yet, or has closed it."""


def kinds(content):
    return [(kind, told) for kind, _, told in read_frames(iter([content])) if kind != b"S"]


async def interactive(rest):
    """Submit a job and place it: it counts as running, and its host has yet to hear of it."""
    job = await rest.submit("sh", terminal={"mode": "I"})
    place(rest.controller, job)
    rest.link.pump()
    return job


def test_a_terminal_that_is_not_there_yet_is_asked_for_again():
    async def story(rest):
        job = await interactive(rest)
        rest.link.terminal_pieces = [
            NONE, NONE, TerminalPiece(1, 0, b"hello"), TerminalPiece(1, 5, b"", is_over=True),
        ]  # fmt: skip
        status, content = await rest.get(f"/jobs/{job}/terminal")
        assert (status, kinds(content)) == (200, [(b"O", b"hello"), (b"E", b"")])
        assert [ask.offset for ask in rest.link.terminal_asks] == [0, 0, 0, 5]

    run_rest(story)


def test_what_is_typed_before_the_terminal_is_there_is_to_be_typed_again():
    async def story(rest):
        job = await interactive(rest)
        rest.link.terminal_pieces = [NONE, TerminalPiece(1, 0, b"", 2)]
        status, problem = await rest.call("POST", f"/jobs/{job}/terminal", b"ab", place=0)
        assert (status, problem["code"]) == (503, "unreachable-host")
        _, taken = await rest.call("POST", f"/jobs/{job}/terminal", b"ab", place=0)
        assert (taken["taken"], taken["is_over"]) == (2, False)

    run_rest(story)


def test_a_job_that_is_over_has_no_terminal_any_more():
    async def story(rest):
        job = await interactive(rest)
        report_started(rest.controller, job)
        report_ended(rest.controller, job)
        rest.link.pump()
        rest.link.terminal_pieces = [NONE, NONE]
        _, content = await rest.get(f"/jobs/{job}/terminal")
        assert kinds(content) == [(b"E", b"")]
        _, taken = await rest.call("POST", f"/jobs/{job}/terminal", b"ab", place=0)
        assert taken["is_over"] is True

    run_rest(story)


@pytest.mark.parametrize("why", ["host h1 is of a release without terminals", "cannot be read"])
def test_what_will_not_pass_ends_it(why):
    async def story(rest):
        job = await interactive(rest)
        rest.link.terminal_pieces = [TerminalPiece(1, 0, b"", error=why)]
        _, content = await rest.get(f"/jobs/{job}/terminal")
        assert kinds(content) == [(b"E", b"")]

    run_rest(story)
