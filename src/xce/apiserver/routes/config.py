"""``POST /config/actions``: the configuration files are put in effect."""

import asyncio
from typing import Final, Literal

import msgspec
from aiohttp import web

from xce.apiserver.access import permission_for
from xce.apiserver.backend import Backend
from xce.apiserver.call import Call, answer, decode
from xce.apiserver.problems import ProblemError, denied, from_refusal, refused
from xce.control.hosts import refuse_config
from xce.model.command import ApplyConfig
from xce.model.errors import ConfigError
from xce.model.refusal import Refusal, RefusalCode

BAD_CONFIG: Final = "bad-config"


class ConfigBody(msgspec.Struct, forbid_unknown_fields=True):
    """What to do with the configuration files."""

    action: Literal["apply"]


class ConfigAnswer(msgspec.Struct, frozen=True):
    """What became of them."""

    seq: int
    text: str
    """``applied``, or ``unchanged`` where they say what is in effect already."""
    new_hosts: tuple[str, ...] = ()
    """Hosts whose workers are still to be started."""


_BODY: Final = msgspec.json.Decoder(ConfigBody)


async def act_on_config(backend: Backend, call: Call) -> web.StreamResponse:
    """Read the configuration files and put them in effect, if nothing is wrong with them."""
    body: ConfigBody = decode(_BODY, await call.body())
    caller = call.caller
    permission = permission_for("/config/actions", body.action)
    if not backend.rights.basis(caller.actor, permission):
        raise denied(permission, refuse_config().text)
    load = backend.site.load_config
    if load is None:
        raise refused(RefusalCode.NOT_BUILT, "this apiserver does not know the files")
    try:
        config = await asyncio.to_thread(load)
    except ConfigError as error:
        raise refused(BAD_CONFIG, str(error)) from error
    before = {host.name for host in backend.replica.state.config.hosts}
    command = ApplyConfig(caller.user, config, caller.is_admin, caller.groups)
    reply = await backend.write(command, caller)
    (result,) = reply.results
    if isinstance(result, Refusal):
        raise ProblemError(from_refusal(result))
    await asyncio.to_thread(backend.site.note_config, config)
    new = tuple(host.name for host in config.hosts if host.name not in before)
    return answer(backend.replica.seq, ConfigAnswer(reply.seq, result.text, new))
