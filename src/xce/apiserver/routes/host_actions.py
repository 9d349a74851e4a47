"""``POST /hosts/actions``: hosts and their GPUs are opened, closed, given up; strangers on them are
ended, or adopted.
"""

from typing import Annotated, Final, Literal

import msgspec
from aiohttp import web
from msgspec import UNSET, Meta, UnsetType

from xce.apiserver.access import permission_for
from xce.apiserver.action_body import Text
from xce.apiserver.backend import Backend
from xce.apiserver.call import Call, answer, decode
from xce.apiserver.job_results import ActionError
from xce.apiserver.problems import denied, refused
from xce.control.hosts import refuse_hosts
from xce.model.command import (
    AdoptStrangers,
    DeclareHostsLost,
    EndStrangers,
    SetDevicesOpen,
    SetHostsOpen,
)
from xce.model.device import DEVICES_MAX
from xce.model.refusal import Refusal, RefusalCode


class HostsBody(msgspec.Struct, forbid_unknown_fields=True):
    """What to do to which hosts.

    ``kill``: end what a restored journal does not know; ``adopt``: take it up again, of which rows
    of hosts tell (``strangers``, ``adopting``, ``unadopted``).
    """

    action: Literal["open", "close", "lost", "kill", "adopt", "open-devices", "close-devices"]
    hosts: Annotated[list[Text], Meta(min_length=1)]
    comment: Text = ""
    devices: Annotated[list[Text], Meta(max_length=DEVICES_MAX)] = []
    """GPUs of the one host, by index or UUID, where they are what is opened or closed."""


class HostResult(msgspec.Struct, frozen=True):
    """What was done to a host, or why nothing was."""

    host: str
    text: str | UnsetType = UNSET
    error: ActionError | UnsetType = UNSET
    device: str | UnsetType = UNSET
    """The GPU that it is about."""


class HostActions(msgspec.Struct, frozen=True):
    """What became of each host."""

    seq: int
    results: list[HostResult]


_HOSTS: Final = msgspec.json.Decoder(HostsBody)


async def act_on_hosts(backend: Backend, call: Call) -> web.StreamResponse:
    """Open or close hosts for new work, give up hosts that are away, end or adopt strangers."""
    body: HostsBody = decode(_HOSTS, await call.body())
    caller = call.caller
    permission = permission_for("/hosts/actions", body.action)
    if not backend.rights.basis(caller.actor, permission):
        raise denied(permission, refuse_hosts(permission).text, about=body.hosts[0])
    names = tuple(dict.fromkeys(body.hosts))
    if body.action.endswith("-devices"):
        return await _act_on_devices(backend, call, body, names)
    if body.devices:
        raise refused(RefusalCode.BAD_REQUEST, f"devices do not belong to {body.action}")
    command: SetHostsOpen | DeclareHostsLost | EndStrangers | AdoptStrangers
    if body.action == "lost":
        command = DeclareHostsLost(caller.user, names, caller.is_admin, caller.groups)
    elif body.action == "kill":
        command = EndStrangers(caller.user, names, caller.is_admin, caller.groups)
    elif body.action == "adopt":
        command = AdoptStrangers(caller.user, names, caller.is_admin, caller.groups)
    else:
        command = SetHostsOpen(
            caller.user, names, body.action == "open", body.comment, caller.is_admin, caller.groups
        )
    reply = await backend.write(command, call.caller)
    results: list[HostResult] = []
    for name, item in zip(names, reply.results, strict=True):
        if isinstance(item, Refusal):
            results.append(HostResult(name, error=ActionError(item.code, item.text, item.lsf)))
        else:
            results.append(HostResult(name, item.text))
    return answer(backend.replica.seq, HostActions(reply.seq, results))


async def _act_on_devices(
    backend: Backend, call: Call, body: HostsBody, names: tuple[str, ...]
) -> web.StreamResponse:
    """Open or close GPUs of one host."""
    devices = tuple(dict.fromkeys(body.devices))
    if len(names) != 1 or not devices:
        raise refused(RefusalCode.BAD_REQUEST, "name one host, and devices of it")
    caller = call.caller
    command = SetDevicesOpen(
        caller.user, names[0], devices, body.action == "open-devices", body.comment,
        caller.is_admin, caller.groups,
    )  # fmt: skip
    reply = await backend.write(command, caller)
    results: list[HostResult] = []
    for device, item in zip(devices, reply.results, strict=True):
        if isinstance(item, Refusal):
            error = ActionError(item.code, item.text, item.lsf)
            results.append(HostResult(names[0], error=error, device=device))
        else:
            results.append(HostResult(names[0], item.text, device=device))
    return answer(backend.replica.seq, HostActions(reply.seq, results))
