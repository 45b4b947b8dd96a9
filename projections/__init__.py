"""The read models: what the events come to, in tables of their own that can be rebuilt."""
