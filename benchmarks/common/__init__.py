"""What benchmarks and studies share. `processes` is imported in environments that hold nothing of agentform."""
