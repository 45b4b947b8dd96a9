"""The pages of `punto serve`: the ledger to look at, in a browser."""
