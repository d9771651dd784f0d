"""The pass of a certificate: all rows once, while the trainer waits."""

from collections.abc import Callable
from contextlib import closing

from streamsvm.reader.certificate.final_pass import Certificate, CertificatePass
from streamsvm.reader.stream.passes import Passes
from streamsvm.storage.rows.segment import Segment


def certified(passes: Passes, certificate: CertificatePass, is_shared: bool, beat: Callable[[], None]) -> Certificate:
    """The certificate of all rows.

    is_shared  the threads that decode also make features and add rows; else this thread does, in the order of the pass
    beat       is called now and then, to show that the pass goes on
    """

    def add(rows: Segment) -> None:
        for part in passes.visited.all_batches(rows):
            certificate.add(part)

    with closing(passes.stream(0, add if is_shared else lambda rows: None, is_alone=True)) as stream:
        for streamed in stream:
            if not is_shared:
                add(streamed.rows)
            beat()
    return certificate.result()
