"""The parent of all job processes on a host. Standard library only."""
