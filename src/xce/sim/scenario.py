"""A scenario as values: the cluster, what happens when, and what is expected.

Instants are microseconds from the scenario's 0, which lies at `Scenario.zero_us`.
"""

from typing import Final

import msgspec

from xce.model.config import ClusterConfig
from xce.model.ids import SECOND_US, Micros
from xce.model.plan import StartRule

ZERO_US: Final = 1_799_971_200 * SECOND_US
"""The scenario's 0 where no ``epoch`` is given: a midnight (2027-01-15 UTC)."""
DEFAULT_USER: Final = "u1"
HOST_STATES: Final = ("down", "up", "ok", "closed", "draining")
"""Of events. ``up``: it is back, as open or closed as it was; ``ok``: and open."""
JOB_STATES: Final = ("PEND", "PSUSP", "RUN", "USUSP", "SSUSP", "DONE", "EXIT", "UNKWN")
ACTIONS: Final = ("bkill", "bstop", "bresume", "brequeue", "btop", "bbot")
"""Commands that a scenario may give, beside ``submit``."""


class PlannedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A submission that will be made."""

    id: str
    line: int
    at_us: Micros
    submit: str = ""
    """A command line of ``bsub``; empty: ``spec`` says it."""
    spec: str = ""
    """A jobspec."""
    user: str = DEFAULT_USER
    least_us: Micros = 0
    most_us: Micros | None = None
    """How long each element runs: drawn between these; None: until something ends it."""
    exit_code: int = 0


class PlannedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something else that will happen: to hosts, by a command, or to a pool."""

    line: int
    at_us: Micros
    hosts: tuple[str, ...] = ()
    state: str = ""
    command: str = ""
    user: str = DEFAULT_USER
    pool: str = ""
    total: int = 0
    load: dict[str, int] | None = None
    """What the hosts measure from now on, in thousandths; the other indices stay."""


def rule_word(rule: StartRule) -> str:
    """Return the word for the rule by which something was started."""
    return rule.value or "turn"


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """What shall hold, of a job or element, or of the whole run."""

    line: int
    text: str
    """As it stands in the file, on one line."""
    at_us: Micros | None = None
    """None: at the end."""
    job: str = ""
    index: int | None = None
    state: str = ""
    counts: dict[str, int] | None = None
    """How many elements of the job are in each state."""
    hosts: dict[str, int] | tuple[str, ...] | None = None
    """Slots by host, or the hosts in rank order."""
    gpus: dict[str, tuple[str, ...]] | None = None
    """By host: its GPUs, by UUID or index."""
    processors: dict[str, str] | None = None
    """By host: what its tasks are bound to together, as ``0-3,8``."""
    reason: str | None = None
    rule: str | None = None
    """By which it was started last, see `rule_word`."""
    start_us: Micros | None = None
    end_us: Micros | None = None
    wait_us: Micros | None = None
    exit_code: int | None = None
    attempt: int | None = None
    summary: dict[str, str] | None = None
    """By path in the summary: a comparison, e.g. ``>= 0.8``."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """A whole file."""

    name: str
    config: ClusterConfig
    down: frozenset[str] = frozenset()
    """Hosts that are not there at the beginning."""
    zero_us: Micros = ZERO_US
    interval_us: Micros = SECOND_US
    jobs: tuple[PlannedJob, ...] = ()
    events: tuple[PlannedEvent, ...] = ()
    until_us: Micros | None = None
    """None: until nothing is left to happen."""
    expect: tuple[Expectation, ...] = ()
