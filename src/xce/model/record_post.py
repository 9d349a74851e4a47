"""What people write to a job: messages in numbered boxes, and the record of one."""

from typing import ClassVar, Final

import msgspec

from xce.model.ids import Index, JobId, Micros
from xce.model.reason import Wake

BOX_MAX: Final = 128
"""The number of the last box; the first is 0."""
POST_TEXT_MAX: Final = 512
ATTACHMENT_MAX: Final = 1024 * 1024


class Post(msgspec.Struct, frozen=True, array_like=True):
    """A message to a job."""

    by: str
    at_us: Micros
    text: str
    level: str = ""
    """As it was posted: ``INFO``, ``WARNING``, ``ERROR``, ``CRITICAL``, or nothing."""
    blob: str = ""
    """Hash of what is attached; empty: nothing is."""
    name: str = ""
    """Name of the attached file."""
    size: int = 0


class Posted(msgspec.Struct, frozen=True, tag="posted", array_like=True):
    """Somebody posted a message to a job; one that lay in the box before is gone."""

    wakes: ClassVar[frozenset[Wake]] = frozenset()

    job: JobId
    index: Index
    """An element; -1: the whole job."""
    box: int
    post: Post
