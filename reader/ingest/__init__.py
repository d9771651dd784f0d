"""Input of any size becomes a published dataset: decompressed, recognised, parsed, shuffled, renumbered."""
