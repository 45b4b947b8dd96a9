"""`punto`: the ledger at the command line."""
