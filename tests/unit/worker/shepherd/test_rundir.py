"""Run directories: what is read back, whenever the writer was killed."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from xce.worker.shepherd import rundir
from xce.worker.shepherd.rundir import Key


class KilledError(BaseException):
    """Stands for SIGKILL: nothing after it is done."""


def intent(key: Key, mark: str) -> dict[str, Any]:
    return {"key": list(key), "mark": mark}


def used_directory(runs: Path, directories: rundir.RunDirectories) -> str:
    """Return the run directory of an attempt that has run, whose shepherd told all of it."""
    path = f"{runs}/1.1.1"
    directories.create(path, uid=os.geteuid(), gid=os.getegid())
    status = rundir.store_intent(path, intent((1, 1, 1), "1.1.1.a1"))
    os.write(status, b"4711\n7\n")
    os.close(status)
    rundir.note(path, ["ended", {"code": 7}])
    stored = rundir.load(path, (1, 1, 1), wall_us=0)
    assert stored is not None
    assert (stored.pid, stored.exit_code, stored.notes) == (4711, 7, [["ended", {"code": 7}]])
    return path


@pytest.mark.parametrize("mark", ["1.2.1.a2", "1.2.1.a23456789", "1.2.1.a"])
@pytest.mark.parametrize("step", range(1, 9))
def test_nothing_of_the_attempt_before_is_read_whenever_the_writer_is_killed(
    step: int, mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directories = rundir.RunDirectories(str(tmp_path), str(tmp_path))
    path = used_directory(tmp_path, directories)
    directories.release(path, "1.1.1", uid=os.geteuid(), keep=False)
    path, key, left = f"{tmp_path}/1.2.1", (1, 2, 1), step

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def do(*args: Any, **more: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise KilledError
            return call(*args, **more)

        return do

    with monkeypatch.context() as patch:
        for name in ("rename", "open", "write", "ftruncate", "close"):
            patch.setattr(os, name, counted(getattr(os, name)))
        try:
            directories.create(path, uid=os.geteuid(), gid=os.getegid())
            rundir.store_intent(path, intent(key, mark))
        except KilledError:
            pass
    stored = rundir.load(path, key, wall_us=0)
    if stored is not None:
        assert stored.intent["mark"] == mark
        assert (stored.pid, stored.exit_code, stored.notes) == (0, -1, [])


def test_a_used_directory_is_read_as_the_attempt_that_has_it_now(tmp_path: Path) -> None:
    directories = rundir.RunDirectories(str(tmp_path), str(tmp_path))
    path = used_directory(tmp_path, directories)
    directories.release(path, "1.1.1", uid=os.geteuid(), keep=False)
    path = f"{tmp_path}/1.2.1"
    directories.create(path, uid=os.geteuid(), gid=os.getegid())
    status = rundir.store_intent(path, intent((1, 2, 1), "m"))
    os.write(status, b"12\n")
    os.close(status)
    stored = rundir.load(path, (1, 2, 1), wall_us=0)
    assert stored is not None
    assert (stored.pid, stored.exit_code, stored.notes) == (12, -1, [])
    assert Path(path, rundir.STATUS).read_bytes() == b"m\n12\n"
