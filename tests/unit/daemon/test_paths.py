import os
import stat
from pathlib import Path

import pytest

from xce.daemon.paths import SOCKET_PATH_MAX, Layout, StateDirectoryError, open_layout

IS_ROOT = os.geteuid() == 0


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("depth", [1, 20, 200])
@pytest.mark.parametrize("host", ["h1", "h" * 63])
def test_every_socket_path_fits_however_deep_the_state_lies(depth: int, host: str) -> None:
    layout = Layout(Path("/" + "/".join(["directory"] * depth)))
    sockets = [layout.controller_socket, layout.api_socket, layout.shepherd_socket(host)]
    assert max(len(os.fsencode(path)) for path in sockets) <= SOCKET_PATH_MAX


def test_two_long_host_names_have_two_sockets() -> None:
    layout = Layout(Path("/var/lib/xce"))
    assert layout.shepherd_socket("h" * 62 + "a") != layout.shepherd_socket("h" * 62 + "b")


def test_two_deep_state_directories_have_two_run_directories(tmp_path: Path) -> None:
    assert Layout(tmp_path / ("a" * 90)).run != Layout(tmp_path / ("b" * 90)).run


def test_what_is_secret_is_closed_to_others(tmp_path: Path) -> None:
    layout = open_layout(tmp_path / "state")
    for path in (layout.peer, layout.journal, layout.snapshots, layout.history, layout.traces):
        assert mode(path) == 0o700
    for path in (layout.root, layout.run, layout.config, layout.log):
        assert mode(path) == (0o755 if IS_ROOT else 0o700)
    assert mode(layout.hosts) == (0o711 if IS_ROOT else 0o700)


def test_a_deep_state_directory_has_its_run_directory_elsewhere_and_a_link_to_it(
    tmp_path: Path,
) -> None:
    root = tmp_path / ("deep" * 25)
    layout = open_layout(root)
    try:
        assert (root / "run").is_symlink()
        assert (root / "run").resolve() == layout.run
        assert layout.run.parent == Path("/tmp")
        (layout.run / "peer" / "x").touch()
        assert open_layout(root) == layout  # again: nothing is lost
        assert (root / "run" / "peer" / "x").exists()
        (layout.run / "peer" / "x").unlink()
    finally:
        layout.peer.rmdir()
        layout.run.rmdir()
    open_layout(root)  # the machine was restarted and /tmp is empty
    assert layout.peer.is_dir()
    layout.peer.rmdir()
    layout.run.rmdir()


def test_wrong_modes_are_put_right(tmp_path: Path) -> None:
    layout = open_layout(tmp_path / "state")
    layout.journal.chmod(0o777)
    open_layout(layout.root)
    assert mode(layout.journal) == 0o700


def test_a_file_in_the_way_is_named(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(StateDirectoryError, match="cannot make .*state"):
        open_layout(tmp_path / "state")


@pytest.mark.skipif(not IS_ROOT, reason="only root can give a directory away")
def test_the_state_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    os.chown(tmp_path / "state", 65534, 65534)
    with pytest.raises(StateDirectoryError, match="belongs to user id 65534"):
        open_layout(tmp_path / "state")
