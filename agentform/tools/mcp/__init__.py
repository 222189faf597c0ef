"""Tools of MCP servers, through the `mcp` package."""
