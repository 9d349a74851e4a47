"""The shepherd's start: ``python -I -S <this file> --socket S --runs DIR ...``.

Isolated and without site packages, so that it starts in 10 ms, stays small, and nothing that is
installed later can change it.
"""

import os
import sys


def main() -> int:
    """Find our own package beside this file and run."""
    here = os.path.abspath(__file__)  # noqa: PTH100
    root = here
    for _ in range(4):
        root = os.path.dirname(root)  # noqa: PTH120
    sys.path.append(root)
    from xce.worker.shepherd import loop  # noqa: PLC0415 - the path had to be set first

    return loop.run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
