"""The start of what workers run in jobs: ``python -IS <this file> job|mpi|probe|rsh|launch ...``.

Isolated and without site packages: nothing in a job's environment changes which code it is.
"""

import importlib
import os
import sys
from typing import Final

PARTS: Final = {
    "job": "xce.cli.launch.job",
    "mpi": "xce.cli.launch.mpi",
    "probe": "xce.cli.launch.probe",
    "rsh": "xce.cli.launch.rsh",
    "launch": "xce.cli.launch.main",
}


def main() -> int:
    """Find our own package above this file, and run a part of it."""
    root = os.path.abspath(__file__)  # noqa: PTH100 - pathlib is not worth its import here
    for _ in range(4):
        root = os.path.dirname(root)  # noqa: PTH120
    sys.path.append(root)
    part = sys.argv.pop(1)
    code: int = importlib.import_module(PARTS[part]).main()
    return code


if __name__ == "__main__":
    sys.exit(main())
