"""Who may do what: roles and grants of a configuration, compiled; one decision for everybody.

The apiserver asks before it passes a command on, and the controller asks again, with the
configuration that holds when it decides.
"""

from typing import Final, NamedTuple

import msgspec

from xce.model.config import ClusterConfig, GrantConfig
from xce.model.permission import BUILT_IN_ROLES, Actor, Permission, expand_permission

OWNER: Final = "owner"
ADMIN: Final = "admin"
EVERYONE: Final = "everyone"


def is_under(project: str, root: str) -> bool:
    """Return whether a project is ``root`` or one below it; paths are texts, ``..`` is a name."""
    trunk = root.rstrip("/")
    is_itself = bool(project) and project in (root, trunk)
    return is_itself or project.startswith(f"{trunk}/")


class _Grant(NamedTuple):
    """A grant with the permissions of its role."""

    role: str
    permissions: frozenset[Permission]
    queue: str
    project: str

    def covers(self, queue: str, project: str) -> bool:
        """Return whether an object in this queue and project lies in the grant's scope."""
        return _covers((self.queue, self.project), queue, project)

    @property
    def is_everywhere(self) -> bool:
        """Whether its scope is the whole cluster."""
        return not (self.queue or self.project)


class Sight(msgspec.Struct, frozen=True):
    """Which jobs a user may do something to who may not do it to all."""

    user: str
    """His own always."""
    scopes: tuple[tuple[str, str], ...] = ()
    """Queue and project of each of his grants; empty: any."""

    def __call__(self, owner: str, queue: str, project: str) -> bool:
        """Return whether a job of an owner, in a queue and a project, is among them."""
        if owner and owner == self.user:
            return True
        return any(_covers(scope, queue, project) for scope in self.scopes)


class Rights:
    """The decisions of one configuration."""

    def __init__(self, config: ClusterConfig) -> None:
        self._admins = frozenset(config.admins)
        named = (config.everyone, *(role.permissions for role in config.roles))
        self._closes_projects = any(text.startswith("project:") for item in named for text in item)
        """Whether it is said who may submit in which project: before that everyone may."""
        self._everyone = _expand(config.everyone)
        if not self._closes_projects:
            self._everyone |= {Permission.PROJECT_SUBMIT}
        roles = dict(BUILT_IN_ROLES)
        roles.update((role.name, role.permissions) for role in config.roles)
        self._users: dict[str, list[_Grant]] = {}
        self._groups: dict[str, list[_Grant]] = {}
        for item in config.grants:
            self._add(item, _expand(roles.get(item.role, ())))

    def _add(self, item: GrantConfig, permissions: frozenset[Permission]) -> None:
        grant = _Grant(item.role, permissions, item.queue, item.project)
        for user in item.users:
            self._users.setdefault(user, []).append(grant)
        for group in item.groups:
            self._groups.setdefault(group, []).append(grant)

    def basis(
        self,
        actor: Actor,
        permission: Permission,
        *,
        owner: str = "",
        queue: str = "",
        project: str = "",
    ) -> str:
        """Return on what ground something is allowed; empty: it is not.

        Args:
            actor: Who asks.
            permission: What for.
            owner: Whose job it is about; empty: it is about no job.
            queue: The queue that the object is in; empty: in none.
            project: The project of the object.
        """
        if owner and owner == actor.user:
            return OWNER
        if actor.is_admin or actor.user in self._admins:
            return ADMIN
        if permission in self._everyone:
            return EVERYONE
        for grant in self._of(actor):
            if permission in grant.permissions and grant.covers(queue, project):
                return f"role {grant.role}"
        return ""

    def basis_to_submit(
        self, actor: Actor, *, queue: str, project: str
    ) -> tuple[str, Permission | None]:
        """Return on what ground a job may be submitted, and which permission is missing if not.

        The queue must be open to the actor, and the project where projects are closed.
        """
        grounds: list[str] = []
        for permission in (Permission.QUEUE_SUBMIT, Permission.PROJECT_SUBMIT):
            if permission is Permission.PROJECT_SUBMIT and not self._closes_projects:
                continue
            ground = self.basis(actor, permission, queue=queue, project=project)
            if not ground:
                return "", permission
            grounds.append(ground)
        return ", ".join(dict.fromkeys(grounds)), None

    def may_everywhere(self, actor: Actor, permission: Permission) -> bool:
        """Return whether something is allowed about every object, whosever it is."""
        if actor.is_admin or actor.user in self._admins or permission in self._everyone:
            return True
        return any(
            grant.is_everywhere and permission in grant.permissions for grant in self._of(actor)
        )

    def may_anywhere(self, actor: Actor, permission: Permission) -> bool:
        """Return whether something is allowed about any object that is not the actor's own."""
        return self.may_everywhere(actor, permission) or any(
            permission in grant.permissions for grant in self._of(actor)
        )

    def filter(self, actor: Actor, permission: Permission) -> Sight | None:
        """Return a test of owner, queue and project; None: everything passes."""
        if self.may_everywhere(actor, permission):
            return None
        grants = [grant for grant in self._of(actor) if permission in grant.permissions]
        scopes = dict.fromkeys((grant.queue, grant.project) for grant in grants)
        return Sight(actor.user, tuple(scopes))

    def is_admin(self, actor: Actor) -> bool:
        """Return whether everything is allowed to ``actor``."""
        return actor.is_admin or actor.user in self._admins

    def _of(self, actor: Actor) -> list[_Grant]:
        found = list(self._users.get(actor.user, ()))
        if self._groups:
            for group in actor.groups:
                found += self._groups.get(group, ())
        return found


def _covers(scope: tuple[str, str], queue: str, project: str) -> bool:
    """Return whether a scope, a queue and a project of which each may be empty, covers these."""
    return scope[0] in ("", queue) and (not scope[1] or is_under(project, scope[1]))


def _expand(permissions: tuple[str, ...]) -> frozenset[Permission]:
    return frozenset(item for text in permissions for item in expand_permission(text))
