"""What feature maps are worth: strings, text, tables and curves, against the same mapped beforehand and scikit-learn."""
