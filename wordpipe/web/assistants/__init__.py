"""The Model Context Protocol, by which an assistant asks the server's indexes: over HTTP, and over standard input."""
