"""What would have to be otherwise for a job to start, found by trying it in sessions."""
