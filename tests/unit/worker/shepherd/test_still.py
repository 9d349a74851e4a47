"""How long an attempt stands still, for one reason or two."""

from types import SimpleNamespace

import pytest

from xce.worker.shepherd.attempts import Attempt
from xce.worker.shepherd.spawn import Ids
from xce.worker.shepherd.still import Still, note_still


def of_worker() -> Still:
    return SimpleNamespace(suspended_us=0, frozen_us=0, stopped_us=0)


def of_shepherd() -> Still:
    return Attempt((1, 0, 1), "/run", ids=Ids(0, 0, ()), note="", mark="m")


def note(one: Still, at_us: int, word: str) -> None:
    still, by_lease = word in ("stop", "freeze"), word in ("freeze", "thaw")
    if isinstance(one, Attempt):
        one.note_still(at_us, still=still, by_lease=by_lease)
    else:
        note_still(one, at_us, still=still, by_lease=by_lease)


@pytest.mark.parametrize("make", [of_worker, of_shepherd])
@pytest.mark.parametrize(
    ("story", "stopped_us", "is_suspended", "is_frozen"),
    [
        ("10 stop 30 go", 20, False, False),
        ("10 freeze 30 thaw", 20, False, False),
        ("10 stop 20 freeze 30 thaw 50 go", 40, False, False),
        ("10 stop 20 freeze 30 go 50 thaw", 40, False, False),
        ("10 freeze 20 stop 30 thaw 50 go", 40, False, False),
        ("10 freeze 20 stop 30 go 50 thaw", 40, False, False),
        ("10 stop 20 freeze 30 thaw", 20, True, False),
        ("10 freeze 20 stop 30 go", 20, False, True),
        ("10 go 20 thaw", 0, False, False),
        ("10 stop 20 stop 30 go 40 freeze 50 freeze 60 thaw", 40, False, False),
    ],
)
def test_time_counts_once_however_many_want_it_to_stand_still(
    make, story: str, stopped_us: int, is_suspended: bool, is_frozen: bool
) -> None:
    one = make()
    words = story.split()
    for at, word in zip(words[::2], words[1::2], strict=True):
        note(one, int(at), word)
    assert one.stopped_us == stopped_us
    assert (bool(one.suspended_us), bool(one.frozen_us)) == (is_suspended, is_frozen)
