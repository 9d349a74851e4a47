"""Where each element was placed last: kept from the records, since the state forgets it."""

from typing import NamedTuple

from xce.model.entry import Entry
from xce.model.ids import HostNumber, Index, JobId, Micros
from xce.model.plan import StartRule
from xce.model.record import BulkPlaced, GangPlaced
from xce.model.request import ClassKey, Request
from xce.state.cluster import ClusterState


class Placement(NamedTuple):
    """A start of one element."""

    cls: int
    attempt: int
    at_us: Micros
    hosts: tuple[HostNumber, ...]
    """In rank order."""
    tasks: tuple[int, ...]
    parts: tuple[int, ...]
    """Of a compound request: the part of each entry; else empty."""
    alternative: int
    devices: tuple[tuple[int, ...], ...] = ()
    """The places of the GPUs of each entry; empty: none."""
    processors: tuple[tuple[int, ...], ...] = ()
    """The processors of each entry, see `xce.model.plan.GangStart`; empty: any."""
    rule: StartRule = StartRule.TURN


class Placements:
    """The last placement of every element, and the keys of the classes."""

    def __init__(self) -> None:
        self.last: dict[tuple[JobId, Index], Placement] = {}
        self.keys: dict[int, ClassKey] = {}

    def note(self, state: ClusterState, entry: Entry) -> None:
        """Take the placements of an entry that ``state`` holds already."""
        for record in entry.records:
            if isinstance(record, BulkPlaced):
                self._note_bulk(state, record)
            elif isinstance(record, GangPlaced):
                self._store(
                    state,
                    record.job,
                    record.index,
                    Placement(
                        record.cls, 0, record.at_us, tuple(record.hosts), tuple(record.tasks),
                        tuple(record.parts), record.alternative,
                        tuple(map(tuple, record.devices)),
                        tuple(map(tuple, record.processors)), record.rule,
                    ),
                )  # fmt: skip

    def adopt(self, state: ClusterState, job: JobId, index: Index, placement: Placement) -> None:
        """Take a placement that was made before."""
        self.last[job, index] = placement
        self.keys.setdefault(placement.cls, state.classes[placement.cls].key)

    def _note_bulk(self, state: ClusterState, record: BulkPlaced) -> None:
        size = state.classes[record.cls].key.request.tasks_max
        hosts = (
            host
            for host, count in zip(record.hosts, record.counts, strict=True)
            for _ in range(count)
        )
        devices, processors = iter(record.devices), iter(record.processors)
        for job_id, first, last in zip(record.jobs, record.firsts, record.lasts, strict=True):
            job = state.jobs[job_id]
            for lo, hi in job.positions(first, last):
                for position in range(lo, hi + 1):
                    placement = Placement(
                        record.cls, 0, record.at_us, (next(hosts),), (size,), (),
                        record.alternative, (tuple(next(devices)),) if record.devices else (),
                        (tuple(next(processors)),) if record.processors else (), record.rule,
                    )  # fmt: skip
                    self._store(state, job_id, job.index(position), placement)

    def _store(self, state: ClusterState, job: JobId, index: Index, placement: Placement) -> None:
        before = self.last.get((job, index))
        attempt = before.attempt + 1 if before is not None else 1
        self.last[job, index] = placement._replace(attempt=attempt)
        self.keys.setdefault(placement.cls, state.classes[placement.cls].key)


def placed_request(request: Request, alternative: int) -> Request:
    """Return the request by which something was placed."""
    return request.alternatives[alternative].request if request.alternatives else request


def role_of(request: Request, part: int) -> tuple[str, Request]:
    """Return the name of an entry's part and its request; no name where there are no parts."""
    if not request.parts:
        return "", request
    found = request.parts[part]
    return found.name, found.request


def entry_amounts(request: Request, tasks: int, *, on_host: bool, is_first: bool) -> dict[str, int]:
    """Return what an entry holds beside slots, in base units.

    Args:
        request: Of its role.
        tasks: How many tasks it has.
        on_host: It is the first entry of its role on its host.
        is_first: It is the first entry of its role.
    """
    found: dict[str, int] = {}
    for amount in request.amounts:
        times = {"task": tasks, "host": int(on_host), "job": int(is_first)}[amount.per]
        if times and amount.resource != "slots":
            found[amount.resource] = found.get(amount.resource, 0) + amount.value * times
    return found
