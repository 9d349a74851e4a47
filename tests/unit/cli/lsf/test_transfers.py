"""``bsub -f`` as it is sent."""

import pytest
from fake_api import FakeApi, run_command

from xce.cli.lsf import bsub
from xce.step.file_copy import place_of

ACCEPTED = {
    "seq": 8,
    "results": [{"jobid": 12, "queue": "normal", "default_queue": True, "warning": ""}],
}


def submit(words):
    """Run bsub; return status, stderr and what was sent."""
    with FakeApi({"POST /jobs": ACCEPTED, "GET /cluster": {}}) as fake:
        status, _, err = run_command(bsub, words, api=fake)
        sent = [request.json() for request in fake.requests if request.method == "POST"]
        return status, err, sent


def test_files_to_copy_are_sent_with_the_place_of_the_local_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, err, (body,) = submit(["-f", "a > b", "-f", "/x/y <", "ls"])
    assert (status, err) == (0, "")
    assert body["transfers"] == [
        [f"{tmp_path}/a", ">", "b", place_of(f"{tmp_path}/a")],
        ["/x/y", "<", "/x/y", place_of("/x/y")],
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a>b", "Bad file transfer: -f 'a>b': a transfer is LOCAL OPERATOR [REMOTE]"),
        ("/ > b", "Bad file transfer: -f / > b: / is no file. Job not submitted."),
    ],
)
def test_what_is_no_transfer_is_refused_before_sending(value, text):
    status, err, sent = submit(["-f", value, "ls"])
    assert (status, sent) == (255, [])
    assert err.startswith(text)
