"""``POST /conditions``: whether a dependency condition holds, now or when it does."""

import asyncio
import time
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta

from xce.apiserver.backend import Backend
from xce.apiserver.call import Call, answer, decode
from xce.apiserver.problems import ProblemError, from_refusal
from xce.apiserver.routes.submit import past_outcomes
from xce.apiserver.submission_body import Text
from xce.control.dependency import judge_condition
from xce.model.refusal import Refusal
from xce.resreq.dependency import Verdict

WAIT_S_MAX: Final = 60
PAUSE_S: Final = 0.1


class ConditionBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A condition, as with ``dependency`` of a submission."""

    condition: Text
    timeout_s: Annotated[float, Meta(ge=0, le=WAIT_S_MAX)] = 0
    """So long at most the answer waits for the condition to hold."""


class ConditionAnswer(msgspec.Struct, frozen=True):
    """What is true of a condition."""

    seq: int
    verdict: str
    """``holds``; ``waits``: it does not, and may; ``never``: it cannot any more."""


_BODY: Final = msgspec.json.Decoder(ConditionBody)


async def judge(backend: Backend, call: Call) -> web.StreamResponse:
    """Tell whether a condition holds; wait until it does, or cannot any more."""
    body: ConditionBody = decode(_BODY, await call.body())
    deadline = time.monotonic() + body.timeout_s
    replica = backend.replica
    while True:
        seq = replica.seq
        known = await past_outcomes(backend, call, [body.condition])
        verdict = judge_condition(
            replica.state, body.condition, call.caller.actor,
            known.get("past", ()), known.get("past_elements", ()),
        )  # fmt: skip
        if isinstance(verdict, Refusal):
            raise ProblemError(from_refusal(verdict))
        left = deadline - time.monotonic()
        if verdict is not Verdict.WAITS or left <= 0:
            return answer(seq, ConditionAnswer(seq, verdict.value))
        await backend.waits.wait_for_any(left)
        # In a busy cluster much happens at once.
        await asyncio.sleep(min(left, PAUSE_S))
