"""Which journal and history a cluster has: files in its state directory, or databases."""

from xce.config.site import SiteConfig
from xce.daemon.config_directory import load_site
from xce.daemon.paths import Layout
from xce.journal.history_place import HistoryPlace
from xce.journal.history_postgres import PostgresHistory
from xce.journal.interface import Journal, JournalReader
from xce.journal.postgres import PostgresJournal
from xce.journal.postgres_line import PostgresTarget
from xce.journal.postgres_reader import open_postgres_reader
from xce.journal.sqlite import SqliteJournal, open_sqlite_reader


def postgres_target(site: SiteConfig) -> PostgresTarget | None:
    """Return the database that holds the journal; None: it is in the state directory."""
    journal = site.journal
    if not journal.postgres:
        return None
    return PostgresTarget(journal.postgres, journal.password_file, journal.password_env)


def open_journal(layout: Layout, site: SiteConfig) -> Journal:
    """Return the journal for a process that is to lead; it begins with `Journal.lead`."""
    target = postgres_target(site)
    if target is None:
        return SqliteJournal(layout.journal)
    return PostgresJournal(target, lease_s=site.journal.lease_s)


def open_reader(layout: Layout, site: SiteConfig) -> JournalReader:
    """Open the journal for reading, beside a running controller or without one.

    Raises:
        CorruptJournalError: There is none, it is damaged, or of a newer release.
        JournalTroubleError: It cannot be read for now.
        JournalRefusedError: It cannot be read as it is configured.
    """
    target = postgres_target(site)
    if target is None:
        return open_sqlite_reader(layout.journal)
    return open_postgres_reader(target)


def history_place(layout: Layout, site: SiteConfig) -> HistoryPlace:
    """Return where the history is."""
    history = site.history
    if not history.postgres:
        return layout.history_file
    target = PostgresTarget(
        history.postgres, history.password_file, history.password_env, section="history"
    )
    return PostgresHistory(target, site.cluster_name)


def find_history(layout: Layout) -> HistoryPlace:
    """Return where the history is, as the configuration says now.

    Raises:
        ConfigError: It cannot be read.
    """
    return history_place(layout, load_site(layout.config))
