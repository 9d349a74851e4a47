import pytest

from xce.config.parse import parse_config, parse_site_config
from xce.config.site import DatabaseSite, JournalSite, SiteConfig
from xce.model.config import ClusterConfig
from xce.model.errors import ConfigError

DSN = "postgresql://xce@db1,db2:5433/xce?sslmode=require"


def site(text):
    return parse_site_config({"xce.yaml": text})


def test_without_a_word_the_journal_is_in_the_state_directory():
    assert parse_site_config({}) == SiteConfig()
    assert site("cluster_name: c\n") == SiteConfig(cluster_name="c")


def test_a_database_is_named_with_where_its_password_is():
    found = site(f"journal: {{postgres: '{DSN}', password_file: /etc/xce/pw, lease_s: 7}}")
    assert found.journal == JournalSite(postgres=DSN, password_file="/etc/xce/pw", lease_s=7)


def test_the_history_may_be_in_a_database_of_its_own():
    found = site(f"history: {{postgres: '{DSN}', password_env: HISTORY_PW}}")
    assert found.history == DatabaseSite(postgres=DSN, password_env="HISTORY_PW")
    assert found.journal == JournalSite()


def test_what_is_for_daemons_is_not_in_the_cluster_config():
    text = f"journal: {{postgres: '{DSN}'}}\ncontrollers: [/a/c.sock, /b/c.sock]\n"
    text += f"history: {{postgres: '{DSN}'}}\n"
    assert site(text).controllers == ("/a/c.sock", "/b/c.sock")
    assert parse_config({"xce.yaml": text}) == ClusterConfig()


def test_controllers_of_other_machines_are_named_by_address():
    assert site("controllers: [c1:7820, '[fd00::2]:7820', /a/c.sock]\n").controllers == (
        "c1:7820", "[fd00::2]:7820", "/a/c.sock",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("journal: {postgres: 'db1/xce'}", "names no database: expected postgresql://"),
        ("journal: {postgres: 'postgresql://xce:secret@db/xce'}", "holds a password"),
        ("journal: {postgres: 'postgresql://db/xce?password=x'}", "holds a password"),
        ("journal: {postgres: 'postgresql:/xce:secret@db/xce'}", r"postgresql:/xce:\.\.\.@db/xce"),
        ("journal: {lease_s: 9}", "lease_s: is for a database: give postgres, too"),
        ("journal: {postgres: 'postgresql://db/x', lease_s: 1}", "1 is out of range"),
        ("journal: {postgres: 'postgresql://db/x', password_file: pw}", "no absolute path"),
        ("journal: {postgres: 'postgresql://db/x', password_env: XCE_PW}", "belong to jobs"),
        ("journal: {postgres: 'postgresql://db/x', password_env: A-B}", "no name of an env"),
        (
            "journal: {postgres: 'postgresql://db/x', password_env: A, password_file: /a}",
            "exclude each other",
        ),
        ("journal: {postgres: 'postgresql://db/x?sslpassword=x'}", "holds a password"),
        ("history: {postgres: 'db1/xce?password=secret'}", r"'db1/xce\?password=\.\.\.' names no"),
        ("history: {postgres: 'postgresql://xce:secret@db/xce'}", "history.postgres: holds a pass"),
        ("history: {password_file: /a}", "history.password_file: is for a database"),
        ("history: {postgres: 'postgresql://db/x', lease_s: 9}", "history has no key 'lease_s'"),
        ("history: postgresql://db/x", "history: is no mapping"),
        ("journal: {sqlite: x}", "journal has no key 'sqlite'"),
        ("controllers: [c1]", "'c1' names no controller: expected host:port"),
        ("controllers: [c1:7820, 'c1:7820']", "c1:7820 stands twice"),
        ("controllers: [/a, /a]", "/a stands twice"),
        ("controllers: /a", "is no list"),
        (f"controllers: [/{'a' * 110}]", "too long for a socket"),
    ],
)
def test_what_cannot_be_used_is_named(text, said):
    with pytest.raises(ConfigError, match=said) as caught:
        parse_config({"xce.yaml": text})
    assert "secret" not in str(caught.value)
    with pytest.raises(ConfigError, match=said):
        site(text)
