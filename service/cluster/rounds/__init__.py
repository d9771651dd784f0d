"""The rounds of a job on several machines: what is said, agreed on, pooled, certified and reported."""
