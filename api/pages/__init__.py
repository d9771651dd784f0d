"""The pages for people: rendered here, kept alive by small scripts that use the interface as anyone may."""
