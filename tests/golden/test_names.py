"""Names that are on disks, in scripts and on screens: shipped once, kept for ever.

A new name is added to ``names.txt`` by hand; one that is gone from the code must stay readable.
"""

import typing
from pathlib import Path

from xce.journal.codec import known_record_tags
from xce.model.command import Command
from xce.model.effect import Effect
from xce.model.job import END_CAUSE_TEXT, EndCause, Outcome, Phase
from xce.model.observation import Observation
from xce.model.reason import HostCode, ReasonCode, Wake
from xce.model.refusal import RefusalCode
from xce.net.message import Message

NAMES = Path(__file__).with_name("names.txt")


def tags(union):
    return [str(kind.__struct_config__.tag) for kind in typing.get_args(union)]


def shipped():
    """Yield every name with what it names."""
    groups = {
        "record": known_record_tags(),
        "command": tags(Command),
        "observation": tags(Observation),
        "effect": tags(Effect),
        "message": tags(Message),
        "refusal": list(RefusalCode),
        "reason": list(ReasonCode),
        "host-reason": list(HostCode),
        "wake": list(Wake),
        "phase": [f"{phase.value} {phase.name}" for phase in Phase],
        "outcome": [f"{outcome.value} {outcome.name}" for outcome in Outcome],
        "end-cause": [
            f"{cause.value} {cause.name} {END_CAUSE_TEXT.get(cause, ('-',))[0]}"
            for cause in EndCause
        ],
    }
    for group, names in groups.items():
        for name in sorted(names):
            yield f"{group} {name}"


def test_no_shipped_name_is_gone_or_changed():
    known = NAMES.read_text(encoding="utf-8").splitlines()
    now = list(shipped())
    assert [name for name in known if name not in now] == [], "these names must stay"
    assert [name for name in now if name not in known] == [], "add these names to names.txt"


def test_no_tag_stands_for_two_things():
    for union in (Command, Observation, Effect, Message):
        found = tags(union)
        assert len(set(found)) == len(found)
