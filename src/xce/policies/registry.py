"""The policies by name. Adding one is adding its functions and naming them here."""

from typing import Final

from xce.sched.policy import FIRST_COME, Policy

POLICIES: Final[dict[str, Policy]] = {"fcfs": FIRST_COME}
DEFAULT_POLICY: Final = "fcfs"
