"""What tests have a fork server fork: `main` does as the file `task` in its run directory says."""

import os
import sys
import time
from pathlib import Path

from storage.child import die_with_parent


def main(run: Path) -> None:
    die_with_parent()
    match (run / "task").read_text():
        case "print":
            print("out")
            print("err", file=sys.stderr)
        case "exit":
            sys.exit(7)
        case "fail":
            raise ValueError("no such thing")
        case "sleep":
            (run / "began").write_text(f"{os.getpid()} {os.getppid()} {os.getsid(0)}")
            time.sleep(60)
