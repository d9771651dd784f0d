"""The inner loops, compiled. They take arrays and numbers; a comment above each says what it changes and returns."""
