"""One module per peer, imported in that peer's environment alone; `make()` gives its `Driver`."""
