"""A PostgreSQL for the tests of this directory, one database a test."""

import itertools
from collections.abc import Iterator

import pytest
from postgres import Postgres, find_binaries, open_postgres

from xce.journal.postgres_line import PostgresTarget

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    if find_binaries() is None:
        pytest.skip("no PostgreSQL: install it, or pip install -e '.[dev]'")
    with open_postgres() as running:
        yield running


@pytest.fixture
def target(server: Postgres) -> PostgresTarget:
    return PostgresTarget(server.make_database(f"test{next(_NUMBERS)}"))
