"""`xceadmin`, for operators."""
