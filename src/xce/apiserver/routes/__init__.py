"""The routes of REST, one family a file; `table` lists them all."""
