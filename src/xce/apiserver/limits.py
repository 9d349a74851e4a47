"""How much one user, and one address without a user, may ask: a bucket of requests for each."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from xce.apiserver.problems import ProblemError, make_problem

BURST_S: Final = 2.0
"""A burst may be what the rate gives in so many seconds."""
BUCKETS_MAX: Final = 10_000
RUNNING_MAX: Final = 1_000
"""Requests of one user at once; those that watch or wait count as well."""
BYTES_MAX: Final = 256 * 1024 * 1024
"""Bytes of bodies of one user's requests that are held in memory at once."""
STRANGER_PER_S: Final = 10.0
"""Requests of an address that nobody has logged in from yet, and failed logins."""
TOO_MANY: Final = "too-many-requests"


class _Bucket:
    __slots__ = ("at", "bytes", "left", "running")

    def __init__(self, at: float, left: float) -> None:
        self.at = at
        self.left = left
        self.running = 0
        self.bytes = 0


class Limits:
    """Buckets by name of a user, or address.

    Args:
        clock: Seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def enter(self, name: str, per_s: float) -> None:
        """Let one request in; `leave` belongs behind it.

        Raises:
            ProblemError: There were too many lately, or there are too many now.
        """
        bucket = self._fill(name, per_s)
        if bucket.running >= RUNNING_MAX:
            raise _too_many(f"{RUNNING_MAX} requests of {name} are being served", 1)
        if bucket.left < 1.0:
            wait_s = max(1, math.ceil((1.0 - bucket.left) / per_s))
            raise _too_many(f"{name} has sent more than {per_s:g} requests a second", wait_s)
        bucket.left -= 1.0
        bucket.running += 1

    def charge(self, name: str, size: int) -> None:
        """Count bytes of a body.

        Raises:
            ProblemError: There are too many under way.
        """
        bucket = self._buckets[name]
        if bucket.bytes + size > BYTES_MAX:
            raise _too_many(f"{name} has {BYTES_MAX} bytes in requests under way", 1)
        bucket.bytes += size

    def leave(self, name: str, charged: int) -> None:
        """Note that a request has been served, of which ``charged`` bytes were counted."""
        bucket = self._buckets[name]
        bucket.running -= 1
        bucket.bytes -= charged

    def _fill(self, name: str, per_s: float) -> _Bucket:
        now, most = self._clock(), max(1.0, per_s * BURST_S)
        bucket = self._buckets.get(name)
        if bucket is None:
            self._forget_idle()
            bucket = self._buckets[name] = _Bucket(now, most)
        else:
            bucket.left = min(most, bucket.left + (now - bucket.at) * per_s)
            bucket.at = now
            self._buckets.move_to_end(name)
        return bucket

    def _forget_idle(self) -> None:
        """Forget the buckets that were not used for longest, but none that is in use."""
        if len(self._buckets) < BUCKETS_MAX:
            return
        for name in list(self._buckets)[: BUCKETS_MAX // 10]:
            if not self._buckets[name].running:
                del self._buckets[name]


def _too_many(text: str, wait_s: int) -> ProblemError:
    problem = make_problem(TOO_MANY, f"{text}; come again in {wait_s} s", status=429)
    return ProblemError(problem, retry_after_s=wait_s)
