"""`xceadmin init` and `xceadmin keys` where no controller runs: files, modes, exit statuses."""

import stat

import pytest

from xce.cli.xceadmin.main import main
from xce.config.parse import parse_config
from xce.daemon.config_directory import load_texts
from xce.daemon.doors import find_own_key, load_first_trusted
from xce.daemon.key_files import KeyFileError, load_certificates, load_label
from xce.daemon.paths import find_layout

LISTEN = "10.0.0.1:7820"


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state"


def run(state, *words):
    return main([*words, "--dir", str(state)])


def init(state, *words, listen=LISTEN):
    return run(state, "init", "--listen", listen, *words)


def test_init_makes_configuration_keys_and_whom_to_trust(state, capsys):
    assert init(state, "--hosts", "h[1-2]", "--cluster", "demo") == 0
    layout = find_layout(state)
    config = parse_config(load_texts(layout.config))
    assert (config.cluster_name, config.listen, config.mode) == ("demo", LISTEN, "production")
    assert [host.name for host in config.hosts] == ["h1", "h2"]
    assert stat.S_IMODE(layout.keys.stat().st_mode) == 0o700
    own = find_own_key(layout, config)
    assert load_label(own.certificate)[0] == "controller"
    ((role, name, file),) = load_first_trusted(layout)
    assert role == "admin"
    assert load_label(layout.keys / file) == (role, name)
    said = capsys.readouterr().out
    assert "xce worker --enrol HOST.token --connect 10.0.0.1:7820" in said


def test_init_is_done_once(state, capsys):
    assert init(state) == 0
    before = (find_layout(state).keys / "controller.key").read_bytes()
    assert init(state) == 1
    assert "is there already" in capsys.readouterr().err
    assert (find_layout(state).keys / "controller.key").read_bytes() == before


def test_init_leaves_a_configuration_that_is_there(state, capsys):
    config = find_layout(state).config
    config.mkdir(parents=True)
    (config / "xce.yaml").write_text("cluster_name: old\n")
    assert init(state) == 0
    assert (config / "xce.yaml").read_text() == "cluster_name: old\n"
    assert f"add to it:  listen: {LISTEN}" in capsys.readouterr().out


@pytest.mark.parametrize("listen", ["7820", "host", ":80", "host:0"])
def test_init_wants_an_address(state, listen, capsys):
    assert init(state, listen=listen) == 2
    assert "is no address" in capsys.readouterr().err


def test_a_controller_that_listens_needs_a_key(state):
    assert init(state) == 0
    layout = find_layout(state)
    config = parse_config(load_texts(layout.config))
    (layout.keys / "controller.key").chmod(0o644)
    with pytest.raises(KeyFileError, match="can be read by others"):
        find_own_key(layout, config)
    (layout.keys / "controller.key").unlink()
    with pytest.raises(KeyFileError, match="xceadmin init"):
        find_own_key(layout, config)
    test = parse_config({"xce.yaml": "mode: test\nlisten: 127.0.0.1:7820"})
    assert find_own_key(layout, test) is None
    elsewhere = parse_config({"xce.yaml": "mode: test\nlisten: 10.0.0.1:7820"})
    with pytest.raises(KeyFileError):
        find_own_key(layout, elsewhere)


def test_a_key_is_made_where_no_cluster_is(state, tmp_path, capsys):
    assert run(state, "keys", "new", "admin", "ann", "--out", str(tmp_path / "ann")) == 0
    said = capsys.readouterr().out
    assert "stays here" in said
    (key,) = (tmp_path / "ann").glob("*.key")
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert key.read_text().splitlines()[1] not in said
    assert len(load_certificates(key.with_suffix(".crt"))) == 1
    assert run(state, "keys", "new", "admin", "ann", "--out", str(tmp_path / "ann")) == 1


def test_what_cannot_be_reached_is_said_so(state, tmp_path, capsys):
    run(state, "keys", "new", "worker", "h1", "--out", str(tmp_path / "k"))
    certificate = str(tmp_path / "k" / "worker-h1.crt")
    for words in (
        ["keys", "list"], ["keys", "trust", certificate], ["keys", "revoke", "a" * 64],
        ["keys", "token", "h1"], ["peers"],
    ):  # fmt: skip
        assert run(state, *words) == 5, words
    assert "No such file" in capsys.readouterr().err


def test_what_is_wrong_with_the_files_is_said_before_anybody_is_asked(state, tmp_path, capsys):
    run(state, "keys", "new", "worker", "h1", "--out", str(tmp_path / "k"))
    assert run(state, "keys", "trust", str(tmp_path / "k" / "worker-h1.key")) == 1
    assert "holds a private key" in capsys.readouterr().err
    assert run(state, "keys", "trust", str(tmp_path / "none.crt")) == 1
    assert run(state, "keys", "list", "--connect", "10.0.0.1:7820") == 2
    assert "--key FILE" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["keys"], ["keys", "new", "thief", "x"], ["keys", "fly"], ["init"]]
)
def test_wrong_usage_is_status_2(state, words, capsys):
    with pytest.raises(SystemExit) as caught:
        run(state, *words)
    assert caught.value.code == 2
