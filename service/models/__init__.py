"""Trained models: stores, exports, evaluates them and predicts with them."""
