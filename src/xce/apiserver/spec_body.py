"""A jobspec in the body of a submission: what it says takes the place of the members beside it."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from xce.apiserver.problems import ProblemError, refused
from xce.jobspec.compile import Asked, compile_group, compile_spec
from xce.jobspec.document import Spec, read_spec
from xce.model.config import ClusterConfig
from xce.model.errors import ConfigError
from xce.model.refusal import RefusalCode
from xce.model.request import Request

FILE: Final = "jobspec"
"""What a jobspec is called that came without a name."""


def read_body_spec(spec: str | Mapping[str, Any], name: str) -> Spec:
    """Return what a jobspec says, that came as a text or as an object.

    Raises:
        ProblemError: It cannot be read.
    """
    text = spec if isinstance(spec, str) else msgspec.json.encode(spec).decode()
    try:
        return read_spec(text, file=name or FILE)
    except ConfigError as error:
        raise spec_refused(error) from error


def members_of(spec: Spec) -> dict[str, Any]:
    """Return the members of a submission that a jobspec gives, beside requirement and roles."""
    members = dict(spec.fields)
    placed = next((role for role in spec.roles if not role.attach), None)
    if placed is not None and placed.command and not {"command", "script"} & set(members):
        members["command"] = placed.command
    return members


def joined_env(own: list[str], given: tuple[str, ...]) -> list[str]:
    """Return variables of the submitter with those of the jobspec over them."""
    if not given:
        return own
    named = {item.partition("=")[0] for item in given}
    return [item for item in own if item.partition("=")[0] not in named] + list(given)


def ask_spec(
    spec: Spec,
    config: ClusterConfig,
    *,
    hosts: str = "",
    exclusive: bool = False,
    group: str = "",
    request: Request | None = None,
) -> Asked:
    """Return what a jobspec asks for; the arguments are those of `compile_spec`.

    Raises:
        ProblemError: It makes no sense.
        LanguageError: A requirement cannot be read, or is not built.
        TextError: Another text cannot be read.
    """
    try:
        return compile_spec(
            spec,
            config,
            unit="MB",
            hosts=hosts,
            exclusive=exclusive,
            group=group,
            request=request,
        )
    except ConfigError as error:
        raise spec_refused(error) from error


def ask_group(group: str, request: Request, config: ClusterConfig) -> Asked:
    """Return what a job asks for that joins a placement group; see `compile_group`.

    Raises:
        ProblemError: It makes no sense.
        LanguageError: It is not built.
        TextError: It cannot be read.
    """
    try:
        return compile_group(group, request, config)
    except ConfigError as error:
        raise spec_refused(error) from error


def spec_refused(error: ConfigError) -> ProblemError:
    """Return the refusal of a jobspec."""
    return refused(RefusalCode.BAD_SPEC, str(error))
