"""XCE, a workload manager for compute clusters."""
