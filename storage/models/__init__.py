"""Model files, and the decision values and probabilities that models compute for rows."""
