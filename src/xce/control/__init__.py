"""Decided things become true: commands and observations to records, effects owed."""
