"""``bpost``, ``bread`` and ``bstatus``: what they send."""

import pytest
from fake_api import FakeApi, run_command

from xce.cli.lsf import bpost, bread, bstatus

ROUTE = "POST /jobs/12/messages"
READ = "GET /jobs/12/messages"
DONE = {"seq": 1, "jobid": 12, "box": 0}
MESSAGE = {"box": 0, "by": "ann", "at": 0.0, "text": "hi", "level": "", "attached": "", "size": 0}


@pytest.mark.parametrize(
    ("module", "words", "body"),
    [
        (bpost, ["12"], {"box": 0, "text": "no description"}),
        (bpost, ["-i", "3", "-d", "x y", "12"], {"box": 3, "text": "x y"}),
        (bpost, ["-N", "error", "-d", "x", "12[4]"],
         {"box": 0, "text": "x", "index": 4, "level": "ERROR"}),
        (bstatus, ["-d", "done half", "12"], {"box": 0, "text": "done half"}),
    ],
)  # fmt: skip
def test_a_message_is_sent_and_nothing_is_said(module, words, body):
    with FakeApi({ROUTE: DONE}) as fake:
        assert run_command(module, words, api=fake) == (0, "", "")
        assert fake.requests[0].json() == body


def test_a_file_is_sent_with_its_name(tmp_path):
    file = tmp_path / "a.txt"
    file.write_bytes(b"\x00\x01")
    with FakeApi({ROUTE: DONE}) as fake:
        assert run_command(bpost, ["-a", str(file), "12"], api=fake)[0] == 0
        body = fake.requests[0].json()
    assert (body["attached"], body["content"]) == ("a.txt", "AAE=")
    file.write_bytes(b"")
    with FakeApi({}) as fake:
        status, _, err = run_command(bpost, ["-a", str(file), "12"], api=fake)
    assert (status, err) == (255, f"{file}: the file is empty.\n")


@pytest.mark.parametrize("module", [bread, bstatus])
def test_a_message_is_shown_in_columns(module):
    with FakeApi({READ: {"messages": [MESSAGE, {**MESSAGE, "box": 4}]}}) as fake:
        status, out, err = run_command(module, ["12"], api=fake)
    assert (status, err) == (0, "")
    heads, line = out.splitlines()
    assert heads == "JOBID       MSG_ID     FROM       POST_TIME          DESCRIPTION"
    assert line.split()[:3] == ["12", "0", "ann"]
    assert line[heads.index("DESCRIPTION") :] == "hi"


def test_a_box_that_is_empty_is_an_error():
    with FakeApi({READ: {"messages": [MESSAGE]}}) as fake:
        status, out, err = run_command(bread, ["-i", "2", "12"], api=fake)
        assert (status, out, err) == (
            255, "", "Job <12>: No message is there in message box 2\n",
        )  # fmt: skip
        assert run_command(bread, ["-N", "12"], api=fake)[0] == 255
