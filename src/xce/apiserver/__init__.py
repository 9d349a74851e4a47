"""REST for people and tools, answered from a follower's replica."""
