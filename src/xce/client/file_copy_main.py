"""One copy of ``bsub -f``: ``python -I -S <this file> copy NUMBER WAY PLACE LOCAL REMOTE``.

So a step of an attempt runs on the job's first host. The worker of the host where the job was
submitted runs ``end WAY PLACE LOCAL NAME MACHINE``: the other end of a copy between two hosts.
"""

import os
import signal
import sys


def main(words: list[str]) -> int:
    """Find our own package beside this file and run."""
    root = os.path.abspath(__file__)  # noqa: PTH100
    for _ in range(3):
        root = os.path.dirname(root)  # noqa: PTH120
    sys.path.append(root)
    # What has begun is taken back.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    if words[0] == "end":
        from xce.client.file_end import serve_end  # noqa: PLC0415 - the path had to be set first

        serve_end(*words[1:])
        return 0
    from xce.client.file_copy import run_copy  # noqa: PLC0415 - as above

    return run_copy(int(words[1]), *words[2:], environ=os.environ)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
