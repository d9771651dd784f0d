"""Ten million rows are predicted, Parquet to Parquet, within 512 MiB."""

import pytest

from tests.bench.predict_files import table_figures

ROWS, MOST_MEGABYTES = 10_000_000, 512


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows(tmp_path):
    _, megabytes = table_figures(tmp_path, ROWS)
    assert megabytes < MOST_MEGABYTES
