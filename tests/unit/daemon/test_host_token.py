"""Tokens of hosts as texts: what is in them, where they are read, and where not."""

import io

import pytest

from xce.daemon.host_token import PREFIX, TokenError, digest_of, load_token, make_token, parse_token

PIN = "ab" * 32


def test_a_token_says_what_it_was_made_of():
    token = make_token("h1", [PIN])
    assert parse_token(token.render()) == token
    assert token.render().startswith(PREFIX)
    assert token.digest == digest_of(token.secret)
    assert token.secret.hex() not in repr(token)
    assert make_token("h1", [PIN]).secret != token.secret


@pytest.mark.parametrize("text", ["", "rubbish", PREFIX, PREFIX + "AAAA", PREFIX + "ä", "x" * 9000])
def test_what_is_no_token_is_not_repeated(text):
    with pytest.raises(TokenError) as caught:
        parse_token(text)
    assert text == "" or len(text) < 3 or text == PREFIX or text not in str(caught.value)


def test_a_token_comes_from_a_file_that_is_its_owners_only(tmp_path):
    token = make_token("h1", [PIN])
    path = tmp_path / "token"
    path.write_text(token.render() + "\n")
    path.chmod(0o644)
    with pytest.raises(TokenError, match="can be read by others"):
        load_token(str(path))
    path.chmod(0o600)
    assert load_token(str(path)) == token
    with pytest.raises(TokenError, match="No such file"):
        load_token(str(tmp_path / "none"))


def test_a_token_comes_from_standard_input_or_the_environment(monkeypatch):
    token = make_token("h1", [PIN])
    monkeypatch.setattr("sys.stdin", io.StringIO(token.render()))
    assert load_token("-") == token
    monkeypatch.setenv("XCE_TOKEN", token.render())
    assert load_token("env") == token
    with pytest.raises(TokenError):
        load_token("env")  # it is not left there for what is started next


def test_a_token_on_the_command_line_is_refused_untold():
    text = make_token("h1", [PIN]).render()
    with pytest.raises(TokenError, match="read by every user") as caught:
        load_token(text)
    assert text not in str(caught.value)
