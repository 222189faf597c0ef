"""How models write calls: what is learned of a chat template, and writing and reading in that language."""
