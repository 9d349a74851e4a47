"""Messages to jobs, as REST shows them."""

from collections.abc import Mapping

import msgspec

from xce.model.ids import SECOND_US
from xce.model.record_post import Post


class PostRow(msgspec.Struct, frozen=True):
    """A message in its box."""

    box: int
    by: str
    """Who posted it."""
    at: float
    text: str
    level: str
    attached: str
    """Name of the attached file; empty: nothing is attached."""
    size: int
    """Bytes that are attached."""


def render_posts(posts: Mapping[int, Post]) -> tuple[PostRow, ...]:
    """Return messages by the numbers of their boxes."""
    return tuple(
        PostRow(box, post.by, post.at_us / SECOND_US, post.text, post.level, post.name, post.size)
        for box, post in posts.items()
    )
