"""Whether the spans by which hosts are given up make sense together."""

from typing import Any, Final

import msgspec

from xce.config.document import Place
from xce.model.config import MISSED_BEATS, ClusterConfig
from xce.model.ids import SECOND_US
from xce.model.units import render_span

REJOIN_US: Final = 5 * SECOND_US
"""So long a worker takes to be started again and to come back, at the most."""
_KEYS: Final = frozenset({"heartbeat_us", "host_grace_us", "self_fence", "fence_after_us"})


def check_grace(place: Place, fields: dict[str, Any], *, is_fenced: bool) -> None:
    """Report a grace that a restart of the worker could exceed, and a fence that is no use.

    Args:
        place: ``xce.yaml``.
        fields: What it gives.
        is_fenced: An application profile wants a fence for its jobs.
    """
    given = {name: value for name, value in fields.items() if name in _KEYS}
    if not given:
        return
    config = msgspec.convert(given, ClusterConfig)
    least_us = config.silence_us + REJOIN_US
    beats = f"{MISSED_BEATS} beats of {render_span(config.heartbeat_us)}"
    if config.host_grace_us <= least_us:
        is_given = "host_grace_us" in given
        what = "" if is_given else "host_grace_s: "
        place.at("host_grace_s" if is_given else "heartbeat_s").problem(
            f"{what}{render_span(config.host_grace_us)} is too short: expected more than "
            f"{render_span(least_us)}, which is {beats} and {render_span(REJOIN_US)} in which a "
            "worker is started again and comes back"
        )
    if config.fence_after_us and not (config.self_fence or is_fenced):
        place.at("fence_after_s").problem("means nothing without 'self_fence: true'")
    elif config.fence_after_us:
        _check_fence(place, config, beats)


def _check_fence(place: Place, config: ClusterConfig, beats: str) -> None:
    most_us = config.host_grace_us * 9 // 10
    if not config.silence_us < config.fence_after_us <= most_us:
        place.at("fence_after_s").problem(
            f"{render_span(config.fence_after_us)} is out of range: expected more "
            f"than {render_span(config.silence_us)} ({beats}) and at most {render_span(most_us)}, "
            "nine tenths of host_grace_s, so that jobs stand still before they are killed, and are "
            "gone before they are started elsewhere"
        )
