"""What a job may ask for, what it would take, what it begins with, how far it is and what it came to."""
