"""Commands that start tasks on the hosts of a job, from within it; standard library only."""
