"""The jobspec: one document that says all about a job, with its roles and their relations."""
