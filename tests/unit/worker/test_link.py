"""The worker's connection to the shepherd of its host."""

import asyncio
import json
import logging
import struct
import subprocess
import sys

import pytest

from xce.worker import link as link_module
from xce.worker.link import PROTOCOL, ShepherdLink, ShepherdOptions
from xce.worker.shepherd.loop import ORDERS


@pytest.mark.parametrize(
    ("word", "is_idle", "is_ours", "is_ended"),
    [
        pytest.param([True, ORDERS], True, False, False, id="of this release"),
        pytest.param([True], False, False, False, id="something runs"),
        pytest.param([True], True, False, True, id="idle"),
        pytest.param([], True, False, True, id="of the first release"),
        pytest.param([True, ORDERS + 1], True, False, True, id="of a later one"),
        pytest.param([True, ORDERS + 1], True, True, False, id="started by this worker"),
    ],
)
def test_a_shepherd_of_another_release_is_ended_once_nothing_runs(
    tmp_path, monkeypatch, word, is_idle, is_ours, is_ended
):
    monkeypatch.setattr(link_module, "_MIND_S", 0.01)
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    runs = [True]  # at first something does in any case
    writers: list[asyncio.StreamWriter] = []

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        hello = ["hello", PROTOCOL, "boot", "", process.pid, *word]
        content = json.dumps([hello, ["listed"]]).encode()
        writer.write(struct.pack(">I", len(content)) + content)
        await writer.drain()
        writers.append(writer)

    async def look() -> None:
        listed = asyncio.Event()
        options = ShepherdOptions(
            tmp_path / "s", tmp_path, tmp_path, "test", log_file=tmp_path / "log"
        )
        link = ShepherdLink(
            options, lambda _: listed.set(), lambda _: None, logging.getLogger("test"),
            lambda: is_idle and not runs,
        )  # fmt: skip
        link._started_pid = process.pid if is_ours else 0
        async with await asyncio.start_unix_server(serve, options.socket):
            running = asyncio.create_task(link.run())
            await listed.wait()
            await asyncio.sleep(0.1)
            assert process.poll() is None
            runs.clear()
            if is_ended:
                await asyncio.to_thread(process.wait, 20)
            else:
                await asyncio.sleep(0.2)
                assert process.poll() is None
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            for writer in writers:
                writer.close()
                await writer.wait_closed()

    try:
        asyncio.run(look())
    finally:
        process.kill()
        process.wait()
