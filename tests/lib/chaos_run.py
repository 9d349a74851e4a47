"""Real processes under load to which everything happens: ``make chaos RUNS=100 SECONDS=20``.

Each run has a cluster of its own. Afterwards the ledger that the load kept is compared with what
the cluster says and with what the jobs wrote.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from chaos_checks import Verdict, judge
from chaos_rigs import Rig, rigs
from live import until, wait_for_ends

LOAD = Path(__file__).with_name("chaos_load.py")
ENDS_S = 180.0


def run_once(name: str, seed: int, seconds: float) -> dict[str, Any]:
    """Make one run; return what came of it.

    Raises:
        AssertionError: The cluster did not become whole, or not all jobs have ended.
    """
    began = time.monotonic()
    rng = random.Random(f"{name}-{seed}")
    with rigs()[name](rng) as rig:
        live = rig.live
        ledger = live.root.parent / "ledger.jsonl"
        marks = live.home / "marks"
        marks.mkdir()
        marks.chmod(0o777)
        words = [str(live.layout.api_socket), str(live.home), str(ledger), str(seed)]
        load = subprocess.Popen([sys.executable, str(LOAD), *words])
        try:
            _havoc(rig, load, seconds)
            rig.heal()
            load.send_signal(signal.SIGTERM)
            until(lambda: load.poll() is not None, "the load ends", patience_s=240, pause_s=0.1)
            assert load.returncode == 0, "the load failed"
        finally:
            load.kill()
            load.wait()
        wait_for_ends(live, ENDS_S)
        verdict = judge(live, ledger, marks, loses_hosts=rig.loses_hosts)
        assert verdict.is_good, _complaint(verdict)
    return {
        "rig": name, "seed": seed, "jobs": verdict.jobs, "elements": verdict.elements,
        "requeued": verdict.requeued, "host_lost": verdict.host_lost, "acts": rig.acts,
        "took_s": round(time.monotonic() - began, 1),
    }  # fmt: skip


def _complaint(verdict: Verdict) -> str:
    return (
        f"{len(verdict.lost)} lost, {len(verdict.doubled)} doubly run, {len(verdict.wrong)} wrong: "
        f"{[*verdict.lost, *verdict.doubled, *verdict.wrong][:5]}"
    )


def _havoc(rig: Rig, load: "subprocess.Popen[bytes]", seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        rig.act()
        assert load.poll() is None, "the load failed"


def main() -> int:
    """Make many runs, and print a line of JSON for each and one for all."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--first", type=int, default=0, help="the first run's number")
    parser.add_argument("--rig", choices=sorted(rigs()), help="only this one")
    options = parser.parse_args()
    names = [options.rig] if options.rig else list(rigs())
    total = {"runs": 0, "failed": 0, "jobs": 0, "elements": 0, "requeued": 0, "acts": 0}
    for number in range(options.first, options.first + options.runs):
        name = names[number % len(names)]
        line: dict[str, Any] = {"run": number}
        try:
            line |= run_once(name, number, options.seconds)
        except Exception as error:  # noqa: BLE001 - the other runs go on
            line |= {"rig": name, "seed": number, "failed": f"{type(error).__name__}: {error}"}
            total["failed"] += 1
        total["runs"] += 1
        for key in ("jobs", "elements", "requeued"):
            total[key] += int(line.get(key, 0))
        total["acts"] += sum(line.get("acts", {}).values())
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    sys.stdout.write(json.dumps(total) + "\n")
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
