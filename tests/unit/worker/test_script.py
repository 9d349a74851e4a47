import pytest

from xce.worker.script import EXEC, SIMPLE, SOURCE, prepare_script


@pytest.mark.parametrize(
    ("text", "way"),
    [
        (b"/bin/true", SIMPLE),
        (b"/bin/true\n", SIMPLE),
        (b"./my.sh a=b --x=1,2 /c:d 50%\n", SIMPLE),
        (b"sleep 10", SIMPLE),
        (b"exit 3", SOURCE),
        (b"true", SOURCE),
        (b"cd /tmp", SOURCE),
        (b"A=1 b", SOURCE),
        (b"a; b", SOURCE),
        (b"a\nb\n", SOURCE),
        (b"a > b", SOURCE),
        (b"a $x", SOURCE),
        (b"a *", SOURCE),
        (b"a 'b c'", SOURCE),
        (b"~/x", SOURCE),
        (b"", SOURCE),
        (b"\n#!/bin/sh\n", SOURCE),
        (b"#!/bin/sh\ntrue\n", EXEC),
        (b"#!/usr/bin/env -S python3 -u\n", EXEC),
        (bytes(range(256)), SOURCE),
        ("r\u00e9sum\u00e9 1".encode(), SOURCE),
    ],
)
def test_the_way_a_script_runs_is_seen_from_its_text(text: bytes, way: str) -> None:
    assert prepare_script(text) == (text, way)


def test_line_ends_of_other_systems_become_newlines() -> None:
    assert prepare_script(b"#!/bin/sh\r\necho a\r\n") == (b"#!/bin/sh\necho a\n", EXEC)
    assert prepare_script(b"/bin/true\r\n") == (b"/bin/true\n", SIMPLE)
    assert prepare_script(b"a\rb")[0] == b"a\rb"
