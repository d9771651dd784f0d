"""The routes of the REST interface; a module has the routes below one path."""
