from pathlib import Path

import pytest

from xce.daemon.settings import SettingsError, default_state_dir, load_settings


def test_the_option_wins_over_the_environment() -> None:
    assert load_settings("/a", {"XCE_DIR": "/b"}).state_dir == Path("/a")


def test_the_environment_wins_over_the_default() -> None:
    settings = load_settings(None, {"XCE_DIR": "/b/../c"})
    assert settings.state_dir == Path("/c")
    assert not settings.is_default


def test_a_link_names_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert load_settings(str(tmp_path / "link"), {}).state_dir == (tmp_path / "real").resolve()


def test_a_plain_file_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="is no directory"):
        load_settings(str(tmp_path / "file"), {})


def test_without_a_word_it_is_the_default() -> None:
    settings = load_settings(None, {"HOME": "/x"})
    assert settings.state_dir == default_state_dir()
    assert settings.is_default


def test_the_default_by_its_name_is_the_default() -> None:
    assert load_settings(str(default_state_dir()), {}).is_default


@pytest.mark.parametrize("named", ["", "  ", "a\nb", "a\0b"])
def test_a_name_that_cannot_be_a_directory_is_refused(named: str) -> None:
    with pytest.raises(SettingsError):
        load_settings(named, {})
