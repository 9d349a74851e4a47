"""REST for the commands. Standard library only."""
