"""Many rows: forms filled and questions answered for every row of a list, a table or a file."""
