"""python -m streamsvm.reader.ingest"""

import sys

from streamsvm.reader.ingest.run import main

sys.exit(main(*sys.argv[1:]))
