"""Allocators: from what is free to the hosts of an attempt."""
