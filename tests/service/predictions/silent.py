"""A process of a prediction that hangs."""

import signal

if __name__ == "__main__":
    signal.pause()
