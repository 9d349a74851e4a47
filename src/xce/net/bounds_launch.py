"""Bounds on what a worker tells of an attempt that shall be taken up again.

What it tells becomes part of the state, and decides what sessions reckon with: it must be something
that a submission could have said. Whether it is true nobody knows (see `xce.control.adopt`).
"""

from collections.abc import Iterable
from typing import Final

from xce.model.device import DEVICES_MAX, WHOLE, GpuWish
from xce.model.effect import Claim, Launch
from xce.model.ids import HOUR_US
from xce.model.job import ArraySpec
from xce.model.relation import ROLES_MAX
from xce.model.request import TASKS_MAX, Amount, CuWish, Request
from xce.resreq.affinity import parse_affinity
from xce.resreq.errors import LanguageError
from xce.resreq.parser import parse_select

COUNT_MAX: Final = 1 << 50
SPAN_US_MAX: Final = 100 * 366 * 24 * HOUR_US
TIME_US_MAX: Final = 1 << 62
UID_MAX: Final = (1 << 32) - 1
NAME_MAX: Final = 4096
RANK_MAX: Final = 1 << 31
_PER: Final = frozenset(("task", "host", "job"))
_AMOUNTS_MAX: Final = 1_000


def is_launch(launch: Launch) -> bool:
    """Return whether a submission could have come to this launch."""
    owner, claim = launch.owner, launch.claim
    return (
        0 < len(owner.user) <= NAME_MAX
        and _are_within((owner.uid, owner.gid), 0, UID_MAX)
        and _are_within((launch.submit_at_us, launch.spec.deadline_us), 0, TIME_US_MAX)
        and _are_within((launch.run_limit_us,), 0, SPAN_US_MAX)
        and _are_within((tasks for _, tasks in launch.hosts), 1, TASKS_MAX)
        and (claim is None or _is_claim(claim))
    )


def _is_claim(claim: Claim) -> bool:
    key = claim.key
    texts = (key.queue, key.user, key.project, key.app, key.group)
    return (
        all(len(text) <= NAME_MAX for text in texts)
        and _are_within((key.priority,), -RANK_MAX, RANK_MAX)
        and _are_within((key.run_limit_us, key.estimate_us), 0, SPAN_US_MAX)
        and _are_within((tasks for _, tasks, _ in claim.rows), 1, TASKS_MAX)
        and _are_within((claim.alternative, *(part for _, _, part in claim.rows)), 0, ROLES_MAX)
        and (claim.array is None or _is_array(claim.array))
        and _is_request(key.request, depth=2)
    )


def _is_array(array: ArraySpec) -> bool:
    numbers = (number for run in array.runs for number in run)
    return _are_within((array.limit, *numbers), 0, RANK_MAX)


def _is_request(request: Request, *, depth: int) -> bool:
    """Return whether a request is one; parts and alternatives are ``depth`` deep at most."""
    inner = [part.request for part in request.parts]
    inner += [one.request for one in request.alternatives]
    counts = (
        request.stripe, request.ptile, request.gtile, request.block, request.hosts_max,
        request.whole_hosts, *(size for _, size in request.ptile_by_type),
    )  # fmt: skip
    parts = [size for part in request.parts for size in (part.tasks, part.tasks_max)]
    delays = (one.delay_us for one in request.alternatives)
    return (
        1 <= request.tasks_min <= request.tasks_max <= TASKS_MAX
        and _are_within(counts, -1, TASKS_MAX)
        and _are_within(parts, 0, TASKS_MAX)
        and _are_within(delays, 0, SPAN_US_MAX)
        and len(request.amounts) <= _AMOUNTS_MAX
        and all(map(_is_amount, request.amounts))
        and (request.gpu is None or _is_gpu(request.gpu))
        and (request.cu is None or _is_cu(request.cu))
        and _can_be_read(request)
        and len(inner) <= (ROLES_MAX if depth else 0)
        and all(_is_request(one, depth=depth - 1) for one in inner)
    )


def _is_amount(amount: Amount) -> bool:
    phases = ((phase.value, phase.duration_us) for phase in amount.phases)
    return (
        amount.per in _PER
        and 1 <= amount.value <= COUNT_MAX
        and 0 <= amount.duration_us <= SPAN_US_MAX
        and all(0 <= value <= COUNT_MAX and 0 <= span <= SPAN_US_MAX for value, span in phases)
    )


def _is_gpu(wish: GpuWish) -> bool:
    return (
        wish.per in _PER
        and 1 <= wish.count <= DEVICES_MAX
        and 1 <= wish.milli <= WHOLE
        and 0 <= wish.mem_mib <= COUNT_MAX
        and -1 <= wish.tile <= DEVICES_MAX
    )


def _is_cu(wish: CuWish) -> bool:
    return _are_within((wish.max_domains, wish.min_slots), 0, TASKS_MAX) and (
        0 <= wish.max_wait_us <= SPAN_US_MAX
    )


def _can_be_read(request: Request) -> bool:
    try:
        if request.select:
            parse_select(request.select)
        if request.affinity:
            parse_affinity(request.affinity)
    except LanguageError:
        return False
    return True


def _are_within(numbers: Iterable[int], low: int, high: int) -> bool:
    return all(low <= number <= high for number in numbers)
