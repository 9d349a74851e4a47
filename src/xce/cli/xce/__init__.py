"""`xce`: a cluster on this machine, and the daemons."""
