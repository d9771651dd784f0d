"""Documents: words and grams, hashed to features."""
