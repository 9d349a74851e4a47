"""What a scenario expects, held against what is."""

from collections import Counter
from functools import partial
from typing import Any

from xce.sim.scenario import Expectation, rule_word
from xce.sim.scenario_keys import holds
from xce.sim.scenario_rows import Element, elements, render_run, seconds
from xce.sim.scenario_run import ScenarioRun


class Looks:
    """Looks at a run when the scenario says so; the results stand in the scenario's order."""

    def __init__(self, run: ScenarioRun) -> None:
        self._run = run
        self._found: dict[int, list[str]] = {}
        for number, item in enumerate(run.scenario.expect):
            if item.at_us is not None:
                run.at(item.at_us, partial(self._look, number, item))

    def _look(self, number: int, item: Expectation) -> None:
        self._found[number] = differences(self._run, item)

    def results(self) -> list[dict[str, Any]]:
        """Return what became of each expectation, when the run is over."""
        rows = []
        summary: dict[str, Any] | None = None
        for number, item in enumerate(self._run.scenario.expect):
            if item.summary is not None:
                summary = summary or render_run(self._run, [])["summary"]
                found = _summary_differences(summary, item.summary)
            elif item.at_us is None:
                found = differences(self._run, item)
            else:
                late = f"the run was over at {seconds(self._run.now_us)}"
                found = self._found.get(number, [late])
            rows.append(
                {
                    "ok": not found,
                    "line": item.line,
                    "text": item.text,
                    "found": "; ".join(found) or None,
                }
            )
        return rows


def differences(run: ScenarioRun, item: Expectation) -> list[str]:
    """Return in words what is otherwise than expected of a job; nothing: it is so."""
    outcome = run.outcomes[item.job]
    if not outcome.job:
        return _refusal_differences(run, item)
    found = list(elements(run, outcome))
    if item.index is not None:
        found = [element for element in found if element.index == item.index]
        if not found:
            return [f"job {item.job} has no element {item.index}"]
    wrong: list[str] = []
    if item.counts is not None:
        counts = Counter(element.stat for element in found)
        if any(counts[word] != number for word, number in item.counts.items()):
            wrong.append(f"counts are {dict(counts)}")
    for element in found:
        wrong += _element_differences(run, element, item)
        if wrong:
            break
    return wrong


def _element_differences(run: ScenarioRun, element: Element, item: Expectation) -> list[str]:
    wrong: list[str] = []
    which = f" of element {element.index}" if element.index else ""
    if item.state and element.stat != item.state:
        why = f" ({element.reason})" if element.reason else ""
        wrong.append(f"state{which} is {element.stat}{why}")
    start_us = element.start_us
    wait_us = None if start_us is None else start_us - element.submit_us
    for name, expected, is_now in (
        ("start", item.start_us, start_us),
        ("end", item.end_us, element.end_us),
        ("wait", item.wait_us, wait_us),
    ):
        if expected is not None and is_now != expected:
            wrong.append(f"{name}{which} is {seconds(is_now)}")
    if item.exit_code is not None and element.exit_code != item.exit_code:
        wrong.append(f"exit{which} is {element.exit_code}")
    if item.attempt is not None and element.attempt != item.attempt:
        wrong.append(f"attempt{which} is {element.attempt}")
    if item.rule is not None:
        placement = element.placement
        rule = "none, since it was not started" if placement is None else rule_word(placement.rule)
        if rule != item.rule:
            wrong.append(f"rule{which} is {rule}")
    wrong += _place_differences(run, element, item, which)
    if item.reason is not None:
        is_told = item.reason in element.codes or item.reason in (element.reason or "")
        if not is_told and not any(item.reason in code for code in element.codes):
            wrong.append(f"reason{which} is {element.reason}")
    return wrong


def _place_differences(
    run: ScenarioRun, element: Element, item: Expectation, which: str
) -> list[str]:
    """Return what is otherwise of where an element runs."""
    wrong: list[str] = []
    if item.hosts is not None:
        hosts = element.slots_by_host(run)
        same = tuple(hosts) == item.hosts if isinstance(item.hosts, tuple) else hosts == item.hosts
        if not same:
            wrong.append(f"hosts{which} are {hosts}")
    if item.gpus is not None:
        gpus = element.gpus_by_host(run)
        if {host: sorted(names) for host, names in item.gpus.items()} != gpus:
            wrong.append(f"gpus{which} are {gpus}")
    if item.processors is not None:
        bound = element.processors_by_host(run)
        if item.processors != bound:
            wrong.append(f"processors{which} are {bound}")
    return wrong


def _refusal_differences(run: ScenarioRun, item: Expectation) -> list[str]:
    """Return what is otherwise of a job that was refused or is not submitted yet."""
    refusal = run.outcomes[item.job].refusal
    if refusal is None:
        return ["it is not submitted yet"]
    wrong: list[str] = []
    if item.state and item.state != "EXIT":
        wrong.append(f"it was refused: {refusal.detail}")
    texts = (refusal.detail, refusal.lsf, refusal.code)
    if item.reason is not None and not any(item.reason in text for text in texts):
        wrong.append(f"reason is {refusal.detail}")
    asked = (
        item.start_us,
        item.hosts,
        item.gpus,
        item.processors,
        item.rule,
        item.counts,
        item.exit_code,
        item.attempt,
        item.wait_us,
    )
    if any(value is not None for value in asked) and not wrong:
        wrong.append(f"it was refused: {refusal.detail}")
    return wrong


def _summary_differences(summary: dict[str, Any], wanted: dict[str, str]) -> list[str]:
    wrong: list[str] = []
    for path, comparison in wanted.items():
        value: Any = summary
        for step in path.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, bool) or not isinstance(value, int | float):
            wrong.append(f"{path} is {value}")
        elif not holds(comparison, value):
            wrong.append(f"{path} is {value:.6g}")
    return wrong
