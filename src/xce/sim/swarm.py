"""Many worlds, by several processes: ``python -m xce.sim.swarm --seeds 0-1999``.

What was lived is noted, and the same command goes on where it was interrupted. Seeds that fail are
printed with a schedule that was made as small as possible.
"""

import argparse
import gc
import hashlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Final

import msgspec

import xce
from xce.sim.coverage import Coverage, no_coverage, render_table
from xce.sim.faults import COUNTED, COUNTED_OF_RESTORE, COUNTED_OF_TRUST, DIALS
from xce.sim.havoc import SEAMS, TASK_SEAMS
from xce.sim.shrink import Failure, Shrunk, live, render_shrunk, shrink

CHUNK: Final = 10
"""So many seeds are lived in one go; few, so that no process idles for long at the end."""
NOTES: Final = Path(".xce-swarm")
"""Where it is noted what was lived."""
SHRUNK_MAX: Final = 5
"""So many failures, all of different kinds, are made smaller."""
FAULTS: Final = (
    *COUNTED,
    *COUNTED_OF_TRUST,
    *COUNTED_OF_RESTORE,
    *(name for name in DIALS if name.endswith("permille")),
)


class Chunk(msgspec.Struct):
    """What came of some seeds."""

    first: int
    last: int
    failures: list[tuple[int, Failure]]
    cpu_s: float
    pairs: list[tuple[str, str, int]]
    """How often each event was written while each fault was at work."""
    strikes: dict[str, int]
    seams: dict[str, int]

    @property
    def coverage(self) -> Coverage:
        """The counts as those of one world."""
        found = no_coverage()
        found.pairs.update({(event, fault): count for event, fault, count in self.pairs})
        found.strikes.update(self.strikes)
        found.seams.update(self.seams)
        return found


class Result(msgspec.Struct):
    """What came of all."""

    seeds: int
    failures: list[tuple[int, Failure]]
    coverage: Coverage
    cpu_s: float
    took_s: float
    lived: int
    """Seeds of this run; the others were lived before it was interrupted."""


def live_chunk(first: int, last: int) -> Chunk:
    """Live every world of a range."""
    gc.freeze()
    gc.disable()  # a life is short: what it leaves is collected behind it
    failures, found = [], no_coverage()
    began_s = time.process_time()
    try:
        for seed in range(first, last + 1):
            world, failure = live(seed)
            if failure is not None:
                failures.append((seed, failure))
            if world is not None:
                found.add(world.strikes.found)
            del world
            gc.collect()
    finally:
        gc.enable()
    pairs = [(event, fault, count) for (event, fault), count in sorted(found.pairs.items())]
    cpu_s = time.process_time() - began_s
    return Chunk(first, last, failures, cpu_s, pairs, dict(found.strikes), dict(found.seams))


def live_all(
    first: int,
    last: int,
    *,
    jobs: int,
    notes: Path | None = None,
    hear: Callable[[Chunk, int], object] = lambda *_: None,
) -> Result:
    """Live every world of a range, by several processes.

    Args:
        first: The first seed.
        last: The last one.
        jobs: How many processes.
        notes: A file in which it is noted what was lived, and from which it is gone on with.
        hear: Is given each part that was lived now, and how many seeds are done.
    """
    began_s = time.monotonic()
    chunks = {(at, min(at + CHUNK - 1, last)) for at in range(first, last + 1, CHUNK)}
    result = Result(last - first + 1, [], no_coverage(), 0.0, 0.0, 0)
    done = 0
    for chunk in _noted(notes) if notes is not None else ():
        if (chunk.first, chunk.last) in chunks:
            chunks.discard((chunk.first, chunk.last))
            done += _take(result, chunk)
    for chunk in _each_chunk(sorted(chunks), jobs):
        if notes is not None:
            with notes.open("ab") as file:
                file.write(msgspec.json.encode(chunk) + b"\n")
        count = _take(result, chunk)
        done, result.lived = done + count, result.lived + count
        hear(chunk, done)
    result.failures.sort()
    result.took_s = time.monotonic() - began_s
    return result


def _take(result: Result, chunk: Chunk) -> int:
    result.failures.extend(chunk.failures)
    result.coverage.add(chunk.coverage)
    result.cpu_s += chunk.cpu_s
    return chunk.last - chunk.first + 1


def _noted(notes: Path) -> Iterator[Chunk]:
    """Yield what was noted; a line that was cut off is lived again."""
    for line in notes.read_bytes().splitlines() if notes.exists() else ():
        try:
            yield msgspec.json.decode(line, type=Chunk)
        except msgspec.DecodeError:
            continue


def _each_chunk(chunks: Sequence[tuple[int, int]], jobs: int) -> Iterator[Chunk]:
    """Yield what came of each chunk, as it comes."""
    if jobs <= 1:
        for chunk in chunks:
            yield live_chunk(*chunk)
        return
    left = iter(chunks)
    with ProcessPoolExecutor(jobs) as pool:
        running: set[Future[Chunk]] = set()
        try:
            while True:
                for chunk in left:
                    running.add(pool.submit(live_chunk, *chunk))
                    if len(running) >= 2 * jobs:
                        break
                if not running:
                    return
                ended, running = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    yield future.result()
        finally:
            for future in running:
                future.cancel()


def code_digest() -> str:
    """Return a hash of all code: what other code lived is not gone on with."""
    found = hashlib.blake2b(digest_size=6)
    for path in sorted(Path(xce.__path__[0]).rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()


class Progress:
    """Shows how far it is: a bar on a terminal, else a line now and then."""

    PAUSE_S = 30.0

    def __init__(self, total: int) -> None:
        self._total = total
        self._lived = self._failed = 0
        self._began_s = self._told_s = time.monotonic()
        self._is_live = sys.stderr.isatty()

    def hear(self, chunk: Chunk, done: int) -> None:
        """Take what came of a chunk."""
        for seed, failure in chunk.failures:
            self._write(f"seed {seed} fails: {failure.text[:300]}\n")
        self._lived += chunk.last - chunk.first + 1
        self._failed += len(chunk.failures)
        now_s = time.monotonic()
        if not self._is_live and now_s - self._told_s < self.PAUSE_S:
            return
        self._told_s = now_s
        rate = self._lived / (now_s - self._began_s)
        left_min = (self._total - done) / rate / 60
        bar = ("#" * (30 * done // self._total)).ljust(30, ".")
        text = f"[{bar}] {done}/{self._total} seeds, {self._failed} fail"
        self._write(f"{text}, {rate * 3600:,.0f} an hour, {left_min:.1f} min left", is_bar=True)

    def close(self) -> None:
        """Leave the bar behind."""
        if self._is_live:
            sys.stderr.write("\n")

    def _write(self, text: str, *, is_bar: bool = False) -> None:
        if self._is_live:
            sys.stderr.write(f"\r\033[K{text}")
        else:
            sys.stderr.write(text + ("\n" if is_bar else ""))
        sys.stderr.flush()


def render_result(result: Result, shrunk: Sequence[Shrunk]) -> list[str]:
    """Return the lines that tell of a run: events by faults, deaths at seams, what failed."""
    lines = ["How often each event was written while a fault was at work (2 s after it struck):"]
    lines += render_table(result.coverage, FAULTS)
    lines.append("Deaths at seams:")
    for process, own in SEAMS.items():
        seams = own + TASK_SEAMS.get(process, ())
        counts = (f"{seam} {result.coverage.seams[f'{process}.{seam}']}" for seam in seams)
        lines.append(f"  {process}: " + ", ".join(counts))
    for one in shrunk:
        lines += ["", *render_shrunk(one)]
    if result.failures:
        failed = ", ".join(str(seed) for seed, _ in result.failures[:40])
        lines += ["", f"seeds that fail: {failed}"]
    rate = result.lived / result.took_s * 3600 if result.took_s else 0
    lines.append(
        f"{result.seeds} seeds, {len(result.failures)} fail, "
        f"{result.cpu_s * 1000 / result.seeds:.0f} ms a seed, {rate:,.0f} seeds an hour"
    )
    return lines


def render_json(result: Result, shrunk: Sequence[Shrunk]) -> dict[str, object]:
    """Return the same as an object."""
    return {
        "seeds": result.seeds,
        "failures": [{"seed": seed, "where": one.where, "text": one.text}
                     for seed, one in result.failures],
        "minimised": [
            {
                "seed": one.seed,
                "again": one.again,
                "where": one.failure.where,
                "text": one.failure.text,
                "items": [{"number": number, "at_s": item.at_us / 1_000_000, "kind": item.kind}
                          for number, item in one.items.items()],
                "without": one.without,
            }
            for one in shrunk
        ],
        "events_by_fault": [
            [*pair, count] for pair, count in sorted(result.coverage.pairs.items())
        ],
        "strikes": dict(result.coverage.strikes),
        "seams": dict(result.coverage.seams),
        "cpu_s": round(result.cpu_s, 3),
        "took_s": round(result.took_s, 3),
        "seeds_an_hour": round(result.lived / result.took_s * 3600) if result.took_s else 0,
    }  # fmt: skip


def _shrink_some(result: Result) -> list[Shrunk]:
    """Make one failure of each kind smaller."""
    kinds = {failure.where: seed for seed, failure in reversed(result.failures)}
    say = sys.stderr.write
    return [shrink(seed, say=lambda text: say(f"{text}\n"))
            for seed in sorted(kinds.values())[:SHRUNK_MAX]]  # fmt: skip


def _live_one(seed: int, keep: str, without: str) -> int:
    """Live a part of one world, and say what came of it."""
    numbers = [int(word) for word in keep.split(",")] if keep not in ("", "none") else []
    kept = frozenset(numbers) if keep else None
    _, failure = live(seed, keep=kept, without=[name for name in without.split(",") if name])
    sys.stdout.write(f"seed {seed} fails:\n{failure.trace}\n" if failure else f"seed {seed}: ok\n")
    return 1 if failure else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="xce.sim.swarm", description=__doc__)
    parser.add_argument("--seeds", default="0-199", help="first-last, or one seed")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--fresh", action="store_true", help="forget what was lived before")
    parser.add_argument("--no-shrink", action="store_true", help="leave what fails as it is")
    parser.add_argument("--keep", default="", help="of one seed: numbers of items, or none")
    parser.add_argument("--without", default="", help="of one seed: dials that do nothing")
    return parser.parse_args()


def main() -> int:
    """Live many worlds and say which fail."""
    options = _parse()
    low, _, high = options.seeds.partition("-")
    first, last = int(low), int(high or low)
    if options.keep or options.without or not high:
        return _live_one(first, options.keep, options.without)
    NOTES.mkdir(exist_ok=True)
    notes = NOTES / f"{first}-{last}-{code_digest()}.jsonl"
    if options.fresh:
        notes.unlink(missing_ok=True)
    progress = Progress(last - first + 1)
    try:
        result = live_all(first, last, jobs=options.jobs, notes=notes, hear=progress.hear)
    except KeyboardInterrupt:
        sys.stderr.write("\ninterrupted; the same command goes on from here\n")
        return 130
    progress.close()
    shrunk = [] if options.no_shrink else _shrink_some(result)
    if options.json:
        sys.stdout.write(msgspec.json.encode(render_json(result, shrunk)).decode() + "\n")
    else:
        sys.stdout.write("\n".join(render_result(result, shrunk)) + "\n")
    return 1 if result.failures else 0


if __name__ == "__main__":
    sys.exit(main())
