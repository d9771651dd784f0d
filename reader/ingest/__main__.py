"""python -m reader.ingest"""

import sys

from reader.ingest.run import main

sys.exit(main(*sys.argv[1:]))
