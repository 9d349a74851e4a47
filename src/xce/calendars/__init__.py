"""Calendars: wall time of IANA zones turned into instants, outside the core (decision X-7)."""
