"""What each policy allocates on the traces of Alibaba's GPU cluster, as a table in Markdown.

python bench/gpu_trace.py DIRECTORY [SEEDS] [POLICY ...]

The directory has openb_node_list_gpu_node.csv and openb_pod_list_*.csv[.gz]. One run for each trace
in the order of its file, and SEEDS (3) shuffled ones, of which the mean is taken.
"""

import statistics
import sys
from pathlib import Path

from xce.sim.gpu_trace import POLICIES, TraceOptions, run_trace

DEMAND = "130"


def shares(directory: Path, pods: Path, policy: str, seeds: int) -> list[str]:
    """Return the cells of a policy: allocated in the order of the file, and shuffled."""
    found = []
    for arrivals, runs in (("trace", 1), ("shuffle", seeds)):
        options = [
            TraceOptions(
                nodes=directory / "openb_node_list_gpu_node.csv", pods=pods, policy=policy,
                arrivals=arrivals, seed=seed,
            )
            for seed in range(runs)
        ]  # fmt: skip
        values = [run_trace(one)["allocated"][DEMAND] for one in options]
        found.append(f"{statistics.fmean(values):.2f}")
    return found


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    directory = Path(sys.argv[1])
    seeds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    policies = sys.argv[3:] or list(POLICIES)
    print(f"| trace | {' | '.join(policies)} |\n|---|{'---|' * len(policies)}")
    for pods in sorted(directory.glob("openb_pod_list_*.csv*")):
        name = pods.name.removeprefix("openb_pod_list_").split(".", 1)[0]
        cells = [shares(directory, pods, policy, seeds) for policy in policies]
        for place, order in enumerate(("in order", "shuffled")):
            row = " | ".join(cell[place] for cell in cells)
            print(f"| {name}, {order} | {row} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
