"""Configuration files to one checked ClusterConfig value, and the merge of its levels."""
