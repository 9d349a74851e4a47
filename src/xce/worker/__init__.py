"""One host's jobs: a pure host state machine and the shell around it."""
