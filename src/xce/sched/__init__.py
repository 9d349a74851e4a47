"""What to do: sessions that turn a state into a plan. Pure."""
