"""Warning commands have the environment of the job, whatever that is."""

import os
import signal
from pathlib import Path
from typing import Any

from xce.worker.shepherd.attempts import Attempt
from xce.worker.shepherd.spawn import Ids
from xce.worker.shepherd.warning import start_warning

ASKED = {"command": "date", "cwd": "/", "umask": 0o22, "limit_us": 0}


class Beside:
    """Starts programs, and keeps with which environment."""

    def __init__(self) -> None:
        self.env: dict[bytes, bytes] = {}

    def spawn_beside(
        self, _attempt: Attempt, argv: list[str | bytes], env: dict[bytes, bytes], _streams: Any
    ) -> int:
        self.env = env
        return os.posix_spawn(argv[0], argv, env)


def test_an_environment_with_items_that_are_no_variables_is_as_good_as_any(tmp_path: Path) -> None:
    job = os.posix_spawn("/bin/sleep", ["sleep", "60"], {b"=a": b"x", b"WORD": b"a=b", b"E": b""})
    ids = Ids(os.geteuid(), os.getegid(), tuple(os.getgroups()))
    attempt = Attempt((1, 0, 1), str(tmp_path), ids=ids, note="", mark="m")
    attempt.pid, starter = job, Beside()
    try:
        while not Path(f"/proc/{job}/environ").read_bytes():
            pass  # a program that is just being loaded has none yet
        pid = start_warning(attempt, 5, ASKED, starter, [job], 0)  # type: ignore[arg-type]
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert (starter.env[b"WORD"], starter.env[b"E"]) == (b"a=b", b"")
        assert b"" not in starter.env
        assert starter.env[b"LSB_JOBPIDS"] == b"%d" % job
        assert attempt.warning == ""
        assert start_warning(attempt, 5, ASKED, starter, [job], 0) == 0  # type: ignore[arg-type]
    finally:
        os.kill(job, signal.SIGKILL)
        os.waitpid(job, 0)
