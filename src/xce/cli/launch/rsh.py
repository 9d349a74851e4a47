"""``xce-rsh HOST COMMAND ...``: what mpirun calls to start its daemons on the hosts of a job."""

import sys
from typing import NoReturn

from xce.cli.lsf import blaunch


def main() -> NoReturn:
    """Run ``blaunch`` without input: mpirun's daemons read none."""
    sys.argv.insert(1, "-n")
    blaunch.main()
