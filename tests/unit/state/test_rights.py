"""Who may do what, as a function of the configuration."""

import pytest

from xce.model.config import ClusterConfig, GrantConfig, RoleConfig
from xce.model.permission import (
    BUILT_IN_ROLES,
    PERMISSIONS,
    Actor,
    Permission,
    expand_permission,
)
from xce.state.rights import Rights

KILL, VIEW, SUBMIT = Permission.JOB_KILL, Permission.JOB_VIEW, Permission.QUEUE_SUBMIT


def rights(**settings):
    return Rights(ClusterConfig(**settings))


def test_an_owner_may_do_everything_to_his_own_job():
    found = rights(everyone=(), roles=(RoleConfig(name="r", permissions=("project:submit",)),))
    for permission in Permission:
        assert found.basis(Actor("ann"), permission, owner="ann") == "owner"
        assert found.basis(Actor("bob"), permission, owner="ann") == ""


def test_nobody_owns_what_has_no_owner():
    assert rights(everyone=()).basis(Actor(""), KILL, owner="") == ""


def test_admins_may_do_everything():
    found = rights(everyone=(), admins=("ann",))
    assert found.basis(Actor("ann"), Permission.HOST_CLOSE) == "admin"
    assert found.basis(Actor("root", is_admin=True), KILL, owner="bob") == "admin"
    assert found.filter(Actor("ann"), VIEW) is None


def test_stars_stand_for_all_verbs_and_for_everything():
    assert expand_permission("*") == tuple(Permission)
    assert {item.value for item in expand_permission("host:*")} == {
        "host:open",
        "host:close",
        "host:lost",
    }
    for text in ("", "job", "job:", ":*", "job:k*", "jobs:*", "JOB:KILL", "job:kill "):
        assert expand_permission(text) == (), text
    for permissions in BUILT_IN_ROLES.values():
        assert all(expand_permission(text) for text in permissions)
    assert len(set(PERMISSIONS)) == len(PERMISSIONS)


@pytest.mark.parametrize(
    ("grant", "queue", "project", "wanted"),
    [
        ({}, "q", "p", True),
        ({"queue": "q"}, "q", "p", True),
        ({"queue": "q"}, "r", "p", False),
        ({"queue": "q"}, "", "", False),
        ({"project": "/a"}, "q", "/a", True),
        ({"project": "/a"}, "q", "/a/b/c", True),
        ({"project": "/a/"}, "q", "/a/b", True),
        ({"project": "/a/"}, "q", "/a", True),
        ({"project": "/a"}, "q", "/a/", True),
        ({"project": "a"}, "q", "a/b", True),
        ({"project": "a"}, "q", "/a", False),
        ({"project": "a"}, "q", "", False),
        ({"project": "/"}, "q", "", False),
        ({"project": "/"}, "q", "a", False),
        ({"project": "/a"}, "q", "/ab", False),
        ({"project": "/a/b"}, "q", "/a", False),
        ({"project": "/"}, "q", "/a", True),
        ({"queue": "q", "project": "/a"}, "q", "/b", False),
        ({"queue": "q", "project": "/a"}, "r", "/a", False),
        ({"queue": "q", "project": "/a"}, "q", "/a", True),
    ],
)
def test_a_grant_covers_its_scope(grant, queue, project, wanted):
    found = rights(grants=(GrantConfig(role="operator", users=("ann",), **grant),))
    basis = found.basis(Actor("ann"), KILL, owner="bob", queue=queue, project=project)
    assert basis == ("role operator" if wanted else "")
    assert found.may_anywhere(Actor("ann"), KILL)
    assert found.may_everywhere(Actor("ann"), KILL) == (not grant)


def test_a_role_reaches_the_members_of_a_group():
    found = rights(
        roles=(RoleConfig(name="killer", permissions=("job:kill",)),),
        grants=(GrantConfig(role="killer", groups=("ops",)),),
    )
    assert found.basis(Actor("ann", ("staff", "ops")), KILL, owner="bob") == "role killer"
    assert found.basis(Actor("ann", ("staff",)), KILL, owner="bob") == ""
    assert found.basis(Actor("ops"), KILL, owner="bob") == ""


def submits(found, user, project, queue="q"):
    return found.basis_to_submit(Actor(user), queue=queue, project=project)


def test_projects_are_open_until_a_role_or_everyone_names_one_of_their_permissions():
    star = RoleConfig(name="lead", permissions=("*",))
    for found in (rights(), rights(roles=(star,))):
        assert submits(found, "ann", "p") == ("everyone", None)
        assert found.basis(Actor("ann"), Permission.PROJECT_SUBMIT, project="p") == "everyone"
    member = RoleConfig(name="member", permissions=("project:*",))
    grants = (GrantConfig(role="member", users=("ann",), project="p", queue="q"),)
    found = rights(roles=(member,), grants=grants)
    assert submits(found, "ann", "p/x") == ("everyone, role member", None)
    assert submits(found, "ann", "p/x", queue="r") == ("", Permission.PROJECT_SUBMIT)
    assert submits(found, "bob", "p") == ("", Permission.PROJECT_SUBMIT)
    found = rights(everyone=("queue:submit", "project:submit"))
    assert submits(found, "ann", "p") == ("everyone", None)
    assert submits(rights(everyone=()), "ann", "p") == ("", SUBMIT)


def test_a_filter_is_the_decision():
    found = rights(everyone=(), grants=(GrantConfig(role="viewer", users=("ann",), queue="night"),))
    passes = found.filter(Actor("ann"), VIEW)
    assert passes is not None
    assert passes("ann", "day", "")
    assert passes("bob", "night", "")
    assert not passes("bob", "day", "")
    assert found.basis(Actor("ann"), SUBMIT, queue="night") == ""
