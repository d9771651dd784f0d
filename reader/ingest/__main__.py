"""python -m streamsvm.reader.ingest"""

import sys

from streamsvm.reader.ingest.run import main
from streamsvm.storage.machine.child import leave

leave(main(*sys.argv[1:]))
