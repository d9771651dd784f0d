"""What tests have a fork server fork: `main` does as the file `task` in its run directory says."""

import os
import sys
import time
from pathlib import Path

from streamsvm.storage.machine.child import die_with_parent


def main(directory: str) -> int | None:
    die_with_parent()
    run = Path(directory)
    match (run / "task").read_text():
        case "print":
            print(sys.stdin.read())
            print("err", file=sys.stderr)
        case "surroundings":
            print(Path.cwd(), os.environ.get("TESTED"))
        case "exit":
            sys.exit(7)
        case "return":
            return 8
        case "fail":
            raise ValueError("no such thing")
        case "sleep":
            (run / "began").write_text(f"{os.getpid()} {os.getppid()} {os.getsid(0)}")
            time.sleep(60)
    return None
