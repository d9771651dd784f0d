"""Files of Arrow are cut into units of batches, which threads predict on their own; streams are not."""

from pathlib import Path

import pyarrow
import pytest
from pyarrow import ipc, parquet

from streamsvm.reader.errors import InputError
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.tables import stored
from streamsvm.reader.sources.files import list_files
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.service.predictions import units
from tests.service.predictions.test_engine import LINEAR, SMALL, decisions, run, table


def arrow_file(path: Path, batches: list[pyarrow.RecordBatch], as_file: bool = True, **options) -> Path:
    """Batches as a file, or a stream, of Arrow."""
    options = ipc.IpcWriteOptions(emit_dictionary_deltas=as_file, **options)
    with (ipc.new_file if as_file else ipc.new_stream)(path, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return path


def named_batches(n_batches: int = 6) -> list[pyarrow.RecordBatch]:
    """Batches of `table()` with a column `kind` whose dictionary is another one in each, in a stream a new one."""
    batches = table(100 * n_batches).to_batches(100)
    kinds = [f"kind {k}" for k in range(n_batches)]
    columns = [
        pyarrow.DictionaryArray.from_arrays(pyarrow.array([k, 0] * 50, pyarrow.int32()), kinds[: k + 1])
        for k in range(n_batches)
    ]
    return [batch.append_column("kind", column) for batch, column in zip(batches, columns, strict=True)]


@pytest.mark.parametrize(("as_file", "compression"), [(True, None), (True, "zstd"), (False, "lz4")])
def test_batches_of_arrow_are_units(tmp_path, monkeypatch, as_file, compression):
    monkeypatch.setattr(units, "UNIT_ROWS", 150)
    path = arrow_file(tmp_path / "rows.arrow", named_batches(), as_file, compression=compression)
    cut = units.units_of(Predictor(LINEAR), list_files([str(path)]), InputOptions(), (), SMALL)
    if as_file:
        assert [(each.start, each.stop, each.first_row) for each in cut] == [(0, 2, 1), (2, 4, 201), (4, 6, 401)]
    assert sum(each.size for each in cut) <= path.stat().st_size
    found = parquet.read_table(run(tmp_path, "out.parquet", path, keep=("id", "kind")))
    rows = pyarrow.Table.from_batches(each.drop_columns("kind") for each in named_batches())
    assert found["id"].to_pylist() == rows["id"].to_pylist()
    assert found["kind"].to_pylist() == [name for k in range(6) for name in 50 * [f"kind {k}", "kind 0"]]
    assert found["decision_value"].to_numpy().tolist() == decisions(rows).tolist()


def test_large_batches_several_streams_and_damage_make_whole_units_of_arrow(tmp_path, monkeypatch):
    path = arrow_file(tmp_path / "rows.arrow", table(600).to_batches(100))
    streams = arrow_file(tmp_path / "streams.arrow", table(600).to_batches(100), as_file=False)
    streams.write_bytes(2 * streams.read_bytes())
    damaged = tmp_path / "damaged.arrow"
    damaged.write_bytes(streams.read_bytes()[:-200])

    def cut(path: Path) -> list[bool]:
        found = units.units_of(Predictor(LINEAR), list_files([str(path)]), InputOptions(), (), SMALL)
        return [each.are_groups for each in found]

    monkeypatch.setattr(units, "UNIT_ROWS", 300)
    assert (cut(path), cut(streams), cut(damaged)) == ([True, True], [False], [False])
    found = parquet.read_table(run(tmp_path, "out.parquet", streams, keep=("id",)))
    assert found["id"].to_pylist() == 2 * table(600)["id"].to_pylist()
    with pytest.raises(InputError, match="cut"):
        run(tmp_path, "none.parquet", damaged)
    monkeypatch.setattr(stored, "_MOST_GROUP_BYTES", 1000)
    assert cut(path) == [False]
