"""The inner loops. Arrays and numbers in, numbers out; what is changed in place is named above each."""
