"""The deterministic cluster test's world: virtual clock, network, hosts, disk."""
