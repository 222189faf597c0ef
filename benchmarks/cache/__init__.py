"""What the cache of conversations saves: recorded traces, long and concurrent conversations, warm against cold."""
