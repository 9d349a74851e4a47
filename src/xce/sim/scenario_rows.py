"""What a run of a scenario came to: a row for each element, the summary, the whole object."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from xce.model.config import ClusterConfig
from xce.model.display import end_cause_text
from xce.model.ids import SECOND_US, HostNumber, Index, JobId, Micros
from xce.model.job import EndCause
from xce.model.processor import numbers_in, render_list
from xce.model.ranges import contains
from xce.model.reason import render_lsf, render_plain
from xce.resreq.affinity import bound_to, parse_affinity
from xce.sim.placements import Placement, entry_amounts, placed_request, role_of
from xce.sim.report import Summary
from xce.sim.scenario import rule_word
from xce.sim.scenario_run import Outcome, ScenarioRun
from xce.state.job import Job
from xce.state.processors import split_sets
from xce.state.view import ended_element, pend_reason, stat_of


class Element:
    """One element of a scenario's job as it is now. Instants are from the scenario's 0."""

    def __init__(self, run: ScenarioRun, outcome: Outcome, job: Job, position: int) -> None:
        state, zero_us = run.state, run.scenario.zero_us
        self.id = outcome.planned.id
        self.job = job.id
        self.index: Index = job.index(position)
        self.stat = stat_of(state, job, position)
        self.submit_us: Micros = job.submit_at_us - zero_us
        self.start_us: Micros | None = None
        self.end_us: Micros | None = None
        self.attempt = 0
        self.exit_code: int | None = None
        self.reason: str | None = None
        self.codes: tuple[str, ...] = ()
        """Codes and LSF's lines of the reason."""
        self.queue, self.project = state.key(job).queue, state.key(job).project
        self.placement: Placement | None = None
        live = job.live.get(position) if job.live else None
        found = ended_element(job, position)
        if live is not None:
            self.attempt = live.number
            self.start_us = live.placed_at_us - zero_us
            self.placement = run.placements.last.get((job.id, self.index))
        elif found is not None:
            ended = found[0]
            self.end_us = ended.ended_at_us - zero_us
            self.reason = end_cause_text(EndCause(ended.cause)) or None
            self.codes = (EndCause(ended.cause).name.lower(),)
            self.attempt = ended.attempt
            if ended.attempt:
                self.exit_code = ended.exit_code
                self.placement = run.placements.last.get((job.id, self.index))
            if self.placement is not None:
                self.start_us = self.placement.at_us - zero_us
            elif ended.started_at_us:
                self.start_us = ended.started_at_us - zero_us
        else:
            held = contains(job.held, position, position)
            reason = pend_reason(state, job, held=held, position=position)
            now_us = zero_us + run.now_us
            self.reason = render_plain(reason, now_us=now_us)
            codes = [str(reason.code), *(str(item.code) for item in reason.host_reasons)]
            self.codes = (*codes, *render_lsf(reason))

    def slots_by_host(self, run: ScenarioRun) -> dict[str, int]:
        """Return the slots on each host, in rank order."""
        found: dict[str, int] = {}
        if self.placement is not None:
            for host, tasks in zip(self.placement.hosts, self.placement.tasks, strict=True):
                name = run.state.hosts.names[host]
                found[name] = found.get(name, 0) + tasks
        return found

    def gpus_by_host(self, run: ScenarioRun) -> dict[str, list[str]]:
        """Return the names of the GPUs on each host, sorted."""
        found: dict[str, set[str]] = {}
        placement = self.placement
        for place, places in enumerate(placement.devices if placement is not None else ()):
            if placement is not None and places:
                host = placement.hosts[place]
                mine = found.setdefault(run.state.hosts.names[host], set())
                mine.update(_gpus(run, host, places))
        return {host: sorted(names) for host, names in found.items()}

    def processors_by_host(self, run: ScenarioRun) -> dict[str, str]:
        """Return the processors that its tasks are bound to on each host."""
        placement = self.placement
        if placement is None:
            return {}
        whole = placed_request(run.placements.keys[placement.cls].request, placement.alternative)
        parts = placement.parts or (0,) * len(placement.hosts)
        rows = zip(placement.hosts, parts, placement.tasks, placement.processors, strict=False)
        found: dict[str, list[int]] = {}
        for host, part, tasks, words in rows:
            if words:
                bound = _bound(run, host, role_of(whole, part)[1].affinity, words, tasks)
                found.setdefault(run.state.hosts.names[host], []).extend(bound)
        return {host: render_list(set(numbers)) for host, numbers in found.items()}


def elements(run: ScenarioRun, outcome: Outcome) -> Iterator[Element]:
    """Yield the elements of a submission; none when it was not made or was refused."""
    job = run.state.jobs.get(outcome.job)
    if job is not None:
        for position in range(job.size):
            yield Element(run, outcome, job, position)


def render_run(run: ScenarioRun, expect: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the object that tells of a run."""
    rows: list[dict[str, Any]] = []
    summary = Summary(SECOND_US)
    for outcome in run.outcomes.values():
        if not outcome.job:
            rows.append(_unsubmitted_row(outcome))
        for element in elements(run, outcome):
            rows.append(_row(run, element))
            summary.note_submit(element.submit_us)
            if element.placement is not None and element.start_us is not None:
                summary.add(
                    submit=element.submit_us,
                    start=element.start_us,
                    end=run.now_us if element.end_us is None else element.end_us,
                    slots=sum(element.slots_by_host(run).values()),
                    queue=element.queue,
                    project=element.project,
                    gpus_milli=_gpus_milli(run, element.placement),
                )
    return {
        "scenario": run.scenario.name,
        "sessions": run.sessions,
        "events": run.events,
        "digest": run.digest,
        "jobs": rows,
        "summary": summary.render(_slots(run, run.state.config), _gpu_count(run)),
        "commands": run.commands,
        "expect": expect,
    }


def _slots(run: ScenarioRun, config: ClusterConfig) -> int:
    table = run.state.hosts
    total = 0
    for host in config.hosts:
        number = table.number[host.name]
        total += int(table.total[0, number]) or host.slots or 1
    return total


def seconds(at_us: Micros | None) -> float | int | None:
    """Return an instant or span in seconds, whole ones as whole numbers."""
    if at_us is None:
        return None
    whole, rest = divmod(at_us, SECOND_US)
    return at_us / SECOND_US if rest else whole


def _unsubmitted_row(outcome: Outcome) -> dict[str, Any]:
    """Return the row of a job that was refused, or whose time never came."""
    refusal = outcome.refusal
    return {
        "id": outcome.planned.id,
        "jobid": None,
        "index": 0,
        "state": "EXIT" if refusal is not None else "UNSUBMITTED",
        "submit": seconds(outcome.at_us),
        "start": None,
        "end": seconds(outcome.at_us),
        "wait": None,
        "attempt": 0,
        "exit": None,
        "reason": refusal.detail if refusal is not None else None,
        "rule": None,
        "placement": [],
    }


def _row(run: ScenarioRun, element: Element) -> dict[str, Any]:
    start_us = element.start_us
    return {
        "id": element.id,
        "jobid": element.job,
        "index": element.index,
        "state": element.stat,
        "submit": seconds(element.submit_us),
        "start": seconds(start_us),
        "end": seconds(element.end_us),
        "wait": None if start_us is None else seconds(start_us - element.submit_us),
        "attempt": element.attempt,
        "exit": element.exit_code,
        "reason": element.reason,
        "rule": None if element.placement is None else rule_word(element.placement.rule),
        "placement": _placement(run, element.job, element.placement),
    }


def _plain_role(run: ScenarioRun, job: JobId) -> str:
    """Return the name of the only role of a job without parts; empty: it has none."""
    roles = run.state.spec(run.state.jobs[job]).roles if job in run.state.jobs else ()
    named = [role.name for role in roles if not role.attach]
    return named[0] if len(named) == 1 else ""


def _placement(run: ScenarioRun, job: JobId, placement: Placement | None) -> list[dict[str, Any]]:
    """Return one entry for each host and role, in rank order."""
    if placement is None:
        return []
    plain = _plain_role(run, job)
    whole = placed_request(run.placements.keys[placement.cls].request, placement.alternative)
    parts = placement.parts or (0,) * len(placement.hosts)
    rows: list[dict[str, Any]] = []
    seen_parts: set[int] = set()
    seen: set[tuple[int, int]] = set()
    rank = 0
    for place, (host, tasks, part) in enumerate(
        zip(placement.hosts, placement.tasks, parts, strict=True)
    ):
        role, request = role_of(whole, part)
        role = role or plain
        words = placement.processors[place] if placement.processors else ()
        rows.append(
            {
                "host": run.state.hosts.names[host],
                "role": role,
                "slots": tasks,
                "gpus": _gpus(run, host, placement.devices[place] if placement.devices else ()),
                **(
                    {"processors": render_list(_bound(run, host, request.affinity, words, tasks))}
                    if words
                    else {}
                ),
                "amounts": entry_amounts(
                    request,
                    tasks,
                    on_host=(part, host) not in seen,
                    is_first=part not in seen_parts,
                ),
                "ranks": list(range(rank, rank + tasks)),
            }
        )
        seen_parts.add(part)
        seen.add((part, host))
        rank += tasks
    return rows


def _gpus(run: ScenarioRun, host: HostNumber, places: Iterable[int]) -> list[str]:
    """Return the GPUs of an entry by UUID, by index where they have none; each once."""
    devices = run.state.hosts.devices.hosts[host].devices
    return list(dict.fromkeys(devices[place].name for place in places))


def _bound(
    run: ScenarioRun, host: HostNumber, affinity: str, words: Sequence[int], tasks: int
) -> list[int]:
    """Return what the tasks of an entry are bound to together."""
    wish, layout = parse_affinity(affinity), run.state.hosts.processors.layout(host)
    mask = 0
    for units in split_sets(words, tasks)[1]:
        mask |= bound_to(wish, layout, units)
    return numbers_in(mask)


def _gpu_count(run: ScenarioRun) -> int:
    """Return how many GPUs are given out in all."""
    hosts = run.state.hosts.devices.hosts
    return sum(
        place not in host.gone and not host.is_split(place)
        for host in hosts
        for place in range(len(host.devices))
    )


def _gpus_milli(run: ScenarioRun, placement: Placement) -> int:
    """Return how much of GPUs a placement has, in thousandths."""
    whole = placed_request(run.placements.keys[placement.cls].request, placement.alternative)
    parts = placement.parts or (0,) * len(placement.hosts)
    total = 0
    for part, places in zip(parts, placement.devices, strict=False):
        wish = role_of(whole, part)[1].gpu
        total += len(places) * wish.milli if wish is not None else 0
    return total
