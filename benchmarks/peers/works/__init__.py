"""What is measured, one module each, with a `measure(bench)` that adds rows to the bench."""
