"""A process of a prediction that hangs; the fork server calls `main`."""

import signal


def main(*_: str) -> None:
    signal.pause()
