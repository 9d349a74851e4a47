"""Builders and strategies for tests."""
