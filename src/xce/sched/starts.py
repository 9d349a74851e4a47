"""Starts as a plan names them, made of placements."""

import numpy as np

from xce.model.ids import Index, JobId
from xce.model.plan import BulkStart, GangStart, StartRule
from xce.sched.columns import HostFacts
from xce.sched.front import Runs
from xce.sched.ground import Ground
from xce.sched.place.spot import Spot
from xce.sched.prove import prove
from xce.sched.shape import Shape
from xce.state.cluster import RequestClass
from xce.state.members import groups_of

Element = tuple[JobId, Index]


def bulk_of_one(found: RequestClass, element: Element, spot: Spot, rule: StartRule) -> BulkStart:
    """Return the start of one single-host element."""
    job_id, index = element
    hosts = spot.hosts.tolist()
    return BulkStart(
        found.cls, [job_id], [index], [index], hosts, [1], rule=rule, devices=spot.devices,
        processors=spot.processors,
    )  # fmt: skip


def bulk_of(found: RequestClass, runs: Runs, spot: Spot, rule: StartRule) -> BulkStart:
    """Return the start of many single-host elements."""
    given = *runs, spot.hosts.tolist(), spot.sizes.tolist()
    return BulkStart(found.cls, *given, rule=rule, devices=spot.devices, processors=spot.processors)


def gang_of(
    found: RequestClass,
    element: Element,
    shape: Shape,
    spot: Spot,
    rule: StartRule,
    *,
    ground: Ground,
    facts: HostFacts,
    topology: int,
) -> GangStart:
    """Return the start of a parallel element, with its certificate."""
    columns = spot.hosts.tolist(), spot.sizes.tolist(), spot.parts.tolist()
    form = next((one for one in shape.inner if one.alternative == spot.alternative), shape)
    proofs = prove(form if shape.request.alternatives else shape, spot, ground, facts)
    for subject in (*groups_of(found.key.request), f"job:{element[0]}"):
        if subject in ground.where or subject.startswith("group:"):
            before = ground.where.get(subject, spot.hosts[:0])
            ground.where[subject] = np.union1d(before, spot.hosts)
    return GangStart(
        found.cls, *element, *columns, spot.alternative, rule, spot.devices, proofs,
        topology if proofs else 0, list(spot.alone), spot.processors,
    )  # fmt: skip
