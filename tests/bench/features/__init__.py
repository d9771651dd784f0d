"""What feature maps are worth: on strings, text, tables and curves, against rows mapped beforehand and scikit-learn."""
