"""`xcecli`, for users."""
