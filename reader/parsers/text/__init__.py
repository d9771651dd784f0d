"""Parsers of documents, whose n-grams are hashed to features."""
