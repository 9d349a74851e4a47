"""What is true: the cluster state, and `apply`, its only writer."""
