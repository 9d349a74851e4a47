"""The step runtime: starts, watches and ends the tasks of a job's roles. Standard library only."""
