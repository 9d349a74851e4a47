"""LSF's commands, one file each. Standard library only."""
