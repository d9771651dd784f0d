"""The mathematics: objectives, losses, tasks. The reader's certificate uses this package. It imports only storage."""
