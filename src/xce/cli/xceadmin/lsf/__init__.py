"""`xceadmin import-lsf`: the configuration of an LSF cluster as one of ours, with a report."""
