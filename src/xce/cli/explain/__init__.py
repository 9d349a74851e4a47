"""``bsub --explain``: everything that a submission says, as one JSON object; submits nothing."""
