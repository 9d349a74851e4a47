"""How copies of ``bsub -f`` fail, as exit statuses of their steps and in what workers say."""

from typing import Final

BEGIN_AGAIN: Final = 1
"""No failure: what came before is lost, and the copy begins anew."""
UNREADABLE: Final = 66
ELSEWHERE: Final = 68
"""No host of the cluster has the directory of the local file."""
AWAY: Final = 69
UNWRITABLE: Final = 73
FULL: Final = 74
UNKNOWN: Final = 75
"""Whether it was added is not known."""
TOO_LONG: Final = 76
NO_ACCOUNT: Final = 77
MOVED: Final = 78
"""The directory is another one now. `xce.worker.shepherd.hooks` has words for these."""
