"""The demonstration that `agentform demo` runs."""
