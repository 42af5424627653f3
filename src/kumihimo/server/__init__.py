"""indexes -> a web server: HTTP, OpenAI-compatible, MCP, and a page."""
