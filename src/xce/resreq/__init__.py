"""The resource requirement and dependency languages: text to tree to compiled value."""
