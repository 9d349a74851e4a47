"""``roles.yaml``: what it means, and where it says what is wrong."""

import pytest

from xce.config.parse import parse_config
from xce.model.errors import ConfigError
from xce.model.permission import EVERYONE

WHOLE = """\
everyone: [cluster:view, queue:submit]
roles:
  - name: lead
    permissions: [job:*, host:open]
grants:
  - role: lead
    users: [ann]
    groups: [ops, "oidc:Night shift"]
    queue: normal
  - role: viewer
    users: [bob]
    project: /chip
"""


def test_a_file_gives_roles_and_grants():
    config = parse_config({"roles.yaml": WHOLE})
    assert config.everyone == ("cluster:view", "queue:submit")
    assert config.roles[0].permissions == ("job:*", "host:open")
    first, second = config.grants
    assert (first.role, first.users, first.queue) == ("lead", ("ann",), "normal")
    assert first.groups == ("ops", "oidc:Night shift")
    assert (second.role, second.project) == ("viewer", "/chip")


def test_without_the_file_everyone_sees_and_submits():
    assert parse_config({}).everyone == EVERYONE
    assert parse_config({"roles.yaml": "everyone: []\n"}).everyone == ()


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("everyone: [job:kil]\n", 1, "did you mean 'job:kill'"),
        ("everyone:\n  - job:kill\n  - project:view\n", 3, "is not built yet"),
        ("everyone: [app:use]\n", 1, "is not built yet"),
        ('everyone: ["app:*"]\n', 1, "is not built yet"),
        ('grants:\n  - {role: viewer, users: [a], project: ""}\n', 2, "has an empty project"),
        ("everyones: []\n", 1, "did you mean 'everyone'"),
        ("roles:\n  - name: admin\n    permissions: ['*']\n", 2, "is built in"),
        ("roles:\n  - permissions: ['*']\n", 2, "needs the key 'name'"),
        ("roles:\n  - {name: a, permissions: ['*']}\n  - {name: a, permissions: []}\n", 3, "twice"),
        ("grants:\n  - {role: nope, users: [ann]}\n", 2, "role 'nope' is not defined"),
        ("grants:\n  - {role: viewer}\n", 2, "is a grant to nobody"),
        ("grants:\n  - {role: viewer, users: [ann, ann]}\n", 2, "stands twice"),
        ("grants:\n  - {role: viewer, users: ['a b']}\n", 2, "is no name of a user"),
        ("grants:\n  - {role: viewer, users: [a], queue: nope}\n", 2, "queue 'nope'"),
        ("grants:\n\n  - {role: viewer, users: [a], cluster: x}\n", 3, "has no key 'cluster'"),
        ("- x\n", 1, "is no mapping"),
        ("grants: 5\n", 1, "is no list"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(text, line, said):
    with pytest.raises(ConfigError) as raised:
        parse_config({"roles.yaml": text})
    assert f"roles.yaml:{line}: " in str(raised.value)
    assert said in str(raised.value)
