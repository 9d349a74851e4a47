"""Many worlds: ``python -m xce.sim.swarm --seeds 0-1999``."""

import argparse
import sys
import time
import traceback
from concurrent.futures import ProcessPoolExecutor

from xce.sim.world import World

CHUNK = 25


def try_seeds(first: int, last: int) -> list[tuple[int, str]]:
    """Live every world of a range; return the seeds that failed and why."""
    failures = []
    for seed in range(first, last + 1):
        try:
            World(seed).live()
        except Exception:  # noqa: BLE001 - whatever it is, it is this seed's failure
            failures.append((seed, traceback.format_exc()))
    return failures


def try_all(first: int, last: int, *, workers: int) -> list[tuple[int, str]]:
    """As `try_seeds`, by several processes."""
    chunks = [(at, min(at + CHUNK - 1, last)) for at in range(first, last + 1, CHUNK)]
    if workers <= 1:
        return [failure for chunk in chunks for failure in try_seeds(*chunk)]
    with ProcessPoolExecutor(workers) as pool:
        found = pool.map(try_seeds, *zip(*chunks, strict=True))
        return [failure for failures in found for failure in failures]


def main() -> int:
    """Try seeds and say which fail."""
    parser = argparse.ArgumentParser(prog="xce.sim.swarm", description=__doc__)
    parser.add_argument("--seeds", default="0-199", help="first-last, or one seed")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    low, high = int(first), int(last or first)
    began = time.monotonic()
    failures = try_all(low, high, workers=options.workers if high > low else 1)
    say = sys.stdout.write
    for seed, text in failures:
        say(f"seed {seed} fails:\n{text}\n")
    took_s = time.monotonic() - began
    count = high - low + 1
    say(f"{count} seeds, {len(failures)} fail, {took_s * 1000 / count:.0f} ms a seed\n")
    if failures:
        say(f"again: python -m xce.sim.swarm --seeds {failures[0][0]}\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
