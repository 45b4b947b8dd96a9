"""Recorded rounds of other systems: how their files are read, and how they come into the ledger."""
