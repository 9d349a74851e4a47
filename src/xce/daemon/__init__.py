"""Wiring of the processes, and nothing else."""
