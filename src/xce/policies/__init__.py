"""Built-in orders, limiters, filters and scorers, named in plain tables."""
