"""`python -m streamsvm` is the command `streamsvm`."""

from streamsvm.service.cli import command

if __name__ == "__main__":
    command()
