"""The step's start: ``python -I -S <this file>``, as the script of a job that runs by roles.

Isolated and without site packages: it starts fast and stays small as long as the job runs. The
plan's path is in ``XCE_STEP_PLAN``.
"""

import os
import sys


def main() -> int:
    """Find our own package beside this file and run."""
    here = os.path.abspath(__file__)  # noqa: PTH100
    root = here
    for _ in range(3):
        root = os.path.dirname(root)  # noqa: PTH120
    sys.path.append(root)
    from xce.client.step import run_step  # noqa: PLC0415 - the path had to be set first

    return run_step(os.environ["XCE_STEP_PLAN"])


if __name__ == "__main__":
    sys.exit(main())
