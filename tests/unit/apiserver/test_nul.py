"""No text of a job may hold NUL: nobody could run it, nor could every database keep it."""

from collections.abc import Iterator
from typing import Any

import msgspec
from rest_cluster import run_rest

from xce.apiserver.modification import ChangeBody
from xce.apiserver.submission_body import SubmissionBody


def bodies(kind: type[msgspec.Struct]) -> Iterator[tuple[str, Any]]:
    """Yield each member with values that may fit its type, and hold NUL."""
    for member in msgspec.structs.fields(kind):
        for value in ("a\0b", ["a\0b"], [["a\0b", "a\0b"]], {"a\0b": "a\0b"}):
            yield member.name, value


def test_a_submission_with_nul_is_refused_whatever_member_it_is_in():
    async def story(rest):
        given = {"command": "true", "warning_s": 10, "run_limit_s": 100}
        for name, value in bodies(SubmissionBody):
            status, document = await rest.post("/jobs", {**given, name: value})
            assert 400 <= status < 500, (name, value, document)

    run_rest(story)


def test_a_change_with_nul_is_refused_whatever_member_it_is_in():
    async def story(rest):
        job = await rest.submit("true", warning_s=10, warning_signal=10, run_limit_s=100)
        for name, value in bodies(ChangeBody):
            body = {"action": "modify", "select": {"jobs": [str(job)]}, "change": {name: value}}
            status, document = await rest.post("/jobs/actions", body)
            assert status < 500, (name, value, document)
            assert status >= 400 or "error" in document["results"][0], (name, value, document)

    run_rest(story)
