"""Frames, peers and followers on the wire."""
