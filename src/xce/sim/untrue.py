"""The complaints about a world in which something is that must never be."""


class UntrueError(AssertionError):
    """Something happened that must never happen."""


def demand(holds: bool, what: str) -> None:
    """Complain unless something holds.

    Raises:
        UntrueError: It does not.
    """
    if not holds:
        raise UntrueError(what)


class BooksError(AssertionError):
    """A record says what cannot follow from the records before it."""


def check(holds: object, what: str) -> None:
    """Complain unless something holds.

    Raises:
        BooksError: It does not.
    """
    if not holds:
        raise BooksError(what)
