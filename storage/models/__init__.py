"""Model files; computation of models' decision values and probabilities for rows."""
