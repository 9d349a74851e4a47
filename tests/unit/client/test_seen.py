import os

from xce.client.seen import FRESH_S, SeenSeq, open_seen


def test_what_was_stored_is_loaded(tmp_path):
    seen = SeenSeq(f"{tmp_path}/seen", "/c/run/api.sock")
    assert seen.load() == 0
    seen.store(12)
    assert seen.load() == 12
    seen.store(3)
    assert seen.load() == 3
    assert (tmp_path / "seen").stat().st_mode & 0o777 == 0o700


def test_clusters_do_not_share_a_number(tmp_path):
    SeenSeq(f"{tmp_path}/seen", "/a/" + "x" * 300).store(1)
    SeenSeq(f"{tmp_path}/seen", "/b/" + "x" * 300).store(2)
    assert SeenSeq(f"{tmp_path}/seen", "/a/" + "x" * 300).load() == 1


def test_an_old_number_is_not_asked_for(tmp_path):
    seen = SeenSeq(f"{tmp_path}/seen", "c")
    seen.store(12)
    (file,) = (tmp_path / "seen").iterdir()
    old = file.stat().st_mtime - FRESH_S - 5
    os.utime(file, (old, old))
    assert seen.load() == 0


def test_a_link_is_not_followed(tmp_path):
    target = tmp_path / "target"
    target.write_text("99\n")
    seen = SeenSeq(f"{tmp_path}/seen", "c")
    (tmp_path / "seen").mkdir(mode=0o700)
    (tmp_path / "seen" / "c").symlink_to(target)
    assert seen.load() == 0
    seen.store(12)
    assert target.read_text() == "99\n"


def test_a_directory_that_others_may_write_is_not_used(tmp_path):
    (tmp_path / "seen").mkdir()
    (tmp_path / "seen").chmod(0o777)
    seen = SeenSeq(f"{tmp_path}/seen", "c")
    seen.store(12)
    assert list((tmp_path / "seen").iterdir()) == []


def test_a_place_that_cannot_be_made_is_no_error(tmp_path):
    seen = SeenSeq(f"{tmp_path}/none/seen", "c")
    seen.store(12)
    assert seen.load() == 0


def test_rubbish_in_the_file_counts_as_nothing(tmp_path):
    seen = SeenSeq(f"{tmp_path}/seen", "c")
    seen.store(1)
    (tmp_path / "seen" / "c").write_text("rubbish")
    assert seen.load() == 0


def test_the_runtime_directory_is_preferred(tmp_path):
    seen = open_seen({"XDG_RUNTIME_DIR": str(tmp_path)}, "/c")
    seen.store(5)
    assert [path.name for path in tmp_path.iterdir()] == ["xce-seq"]
