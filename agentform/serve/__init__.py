"""`agentform serve`: an OpenAI-compatible server over any engine; needs the extra "serve"."""
