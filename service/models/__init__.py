"""Trained models: kept, exported, asked for predictions, evaluated."""
