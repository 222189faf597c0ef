"""What settled a default once, and is run again on demand: `python -m studies NAME`."""
