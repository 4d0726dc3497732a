"""Making text ready: normal forms, the named ways of cutting, scripts, added tokens."""
