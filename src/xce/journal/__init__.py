"""Durable entries: the SQLite journal, snapshots, recovery, history."""
