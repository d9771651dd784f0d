"""`streamsvm demo`: its data, its service, its session, and LIBLINEAR beside it."""
