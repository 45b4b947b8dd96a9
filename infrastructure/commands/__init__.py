"""Commands: how they are read, what they do, and the answers that are remembered."""
