"""The pages for people: rendered here, and updated by small scripts that use the public REST interface."""
