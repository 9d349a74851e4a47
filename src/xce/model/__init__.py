"""The vocabulary: what things are called. Imports nothing of ours."""
