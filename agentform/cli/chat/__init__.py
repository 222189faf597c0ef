"""`agentform chat`: an agent in the terminal, with how it came to each of its calls."""
