"""A dataset is predicted as the file that it was made from, in order; Arrow is cut into units of batches."""

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow
import pytest
from pyarrow import ipc, parquet

from streamsvm.reader.errors import InputError
from streamsvm.reader.ingest.append import append_rows, remove_block
from streamsvm.reader.ingest.run import ingest
from streamsvm.reader.limits import InputLimits
from streamsvm.reader.options import InputOptions
from streamsvm.reader.parsers.tables import stored
from streamsvm.service.errors import ServiceError
from streamsvm.service.models.heaviest import input_about
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.service.predictions import file_rows
from streamsvm.service.predictions.engine import Engine
from streamsvm.service.predictions.request import PredictionRequest
from streamsvm.storage.blocks.manifest import Manifest, read_manifest
from streamsvm.storage.models.model_file import Model
from streamsvm.storage.models.support_vectors import SupportVectors
from tests.refusals import refused
from tests.service.predictions.test_engine import LINEAR, SMALL, decisions, run, table

RNG = np.random.default_rng(7)
N = 400


def libsvm(rows: int = N, weight: str = "") -> str:
    """Rows whose features of many rows have large numbers, so that the dataset numbers them anew."""
    lines = []
    for k in range(rows):
        often = 300_000 + RNG.integers(0, 5)
        features = {int(RNG.integers(1, 900)): 0.5, int(often): 1 + k % 7, 300_100: -0.25}
        lines.append(f"{'+1' if k % 3 else '-1'}{weight} " + " ".join(f"{j}:{v}" for j, v in sorted(features.items())))
    return "\n".join(lines) + "\n"


def words(rows: int = N) -> str:
    colours, labels = ["red", "green", "blue", "grey"], ["no", "yes", "maybe"]
    lines = [f"{k / 8},{colours[k % 4]},{-k},{labels[k % 3]}" for k in range(rows)]
    return "size,colour,depth,label\n" + "\n".join(lines) + "\n"


def documents(rows: int = N) -> str:
    return "".join(f"{k % 2}\tword{k % 11} and word{k % 17} again word{k % 11}\n" for k in range(rows))


INPUTS = {
    "libsvm": (libsvm, {"format": "libsvm"}),
    "csv": (words, {"format": "csv", "categorical": "colour"}),
    "text": (documents, {"format": "text", "n_features": 4096}),
}


def made(folder: Path, kind: str, **more) -> tuple[Path, Path, Model]:
    """The file and the dataset of an input, and a model of such rows."""
    write, options = INPUTS[kind]
    file, dataset = folder / f"rows.{kind}", folder / "data"
    file.write_text(write())
    manifest = ingest([file.read_bytes()], dataset, InputOptions(**{"shuffle": "no", **options, **more}))
    return file, dataset, model_of(manifest)


def model_of(manifest: Manifest, labels: tuple = (1.0, -1.0)) -> Model:
    names = manifest.label_names or labels
    shape = (manifest.n_features,) if len(names) == 2 else (len(names), manifest.n_features)
    bias = 1.0 if len(names) == 2 else (0.5, 0.25, -1.0)
    return Model(RNG.standard_normal(shape), tuple(names), manifest.index_base, 1.0, bias, input_about(manifest))


def predicted(folder: Path, model: Model, keep: tuple[str, ...] = (), outputs=("label", "decision_value"), **source):
    out = folder / "out.parquet"
    options = source.get("options", InputOptions())
    request = PredictionRequest(source.get("sources", ()), "parquet", options, keep, outputs, source.get("dataset"))
    figures = Engine(Predictor(model), request, folder / "pieces", unit_bytes=1 << 12).run(str(out))
    return parquet.read_table(out), figures


@pytest.mark.parametrize("kind", INPUTS)
def test_it_is_predicted_as_its_file(tmp_path, kind):
    file, dataset, model = made(tmp_path, kind)
    options = InputOptions(kind, **({"label_column": 1} if kind == "text" else {}))
    of_file, _ = predicted(tmp_path, model, sources=[str(file)], options=options)
    of_rows, figures = predicted(tmp_path, model, ("row", "label", "weight"), dataset=dataset)
    assert of_rows["row"].to_pylist() == list(range(N))
    assert of_rows.select(of_file.column_names[-1:]) == of_file.select(of_file.column_names[-1:])
    assert of_rows["label"].to_pylist() == of_file["label"].to_pylist()
    manifest = read_manifest(dataset)
    labels = {"libsvm": (-1.0, 1.0, 1.0), "csv": ("no", "yes", "maybe"), "text": (0.0, 1.0)}[kind]
    expected = [labels[k % len(labels)] for k in range(N)]
    assert of_rows["input_label"].to_pylist() == expected and set(of_rows["weight"].to_pylist()) == {1.0}
    assert figures.rows == N and figures.unknown_features == 0
    assert manifest.renumbered or kind != "libsvm"


def test_rows_of_a_removed_block_are_not_there_and_rows_that_were_added_come_last(tmp_path):
    _, dataset, model = made(tmp_path, "libsvm", shuffle="yes")
    append_rows([libsvm(50, ":2.5").encode()], dataset, InputOptions("libsvm"), InputLimits(), 1)
    whole, _ = predicted(tmp_path, model, ("row", "weight"), dataset=dataset)
    assert whole["row"].to_pylist() == list(range(N + 50))
    assert whole["weight"].to_pylist() == [1.0] * N + [2.5] * 50
    before = read_manifest(dataset)
    remove_block(dataset, before.blocks[0].number)
    rest, _ = predicted(tmp_path, model, ("row", "weight"), dataset=dataset)
    left = N + 50 - before.blocks[0].rows
    assert rest["row"].to_pylist() == list(range(left)) and left < N + 50
    assert Counter(rest["decision_value"].to_pylist()) <= Counter(whole["decision_value"].to_pylist())


def test_features_that_the_model_does_not_know_count_and_columns_that_it_lacks_do_not(tmp_path):
    file, dataset, model = made(tmp_path, "libsvm")
    small = Model(model.w[:1000], model.labels, 1)
    _, figures = predicted(tmp_path, small, dataset=dataset)
    assert figures.unknown_features == predicted(tmp_path, small, sources=[str(file)])[1].unknown_features > N
    other = tmp_path / "wider"
    other.mkdir()
    lines = [f"{k % 2},{k},{k / 4},{k % 5}" for k in range(N)]
    narrow = ingest(["\n".join(["label,a,b,c", *lines]).encode()], other / "narrow", InputOptions("csv"))
    model = model_of(narrow, (1.0, 0.0))
    lines = [f"{k},{k % 2},{-k},{k / 4},{k % 5}" for k in range(N)]
    options = InputOptions("csv", shuffle="no")
    ingest(["\n".join(["a,label,id,b,c", *lines]).encode()], other / "wide", options)
    found, figures = predicted(other, model, dataset=other / "wide")
    w = model.w
    k = np.arange(N)
    expected = k * w[0] + k / 4 * w[1] + k % 5 * w[2] + 1.0
    np.testing.assert_allclose(found["decision_value"].to_numpy(), expected, rtol=1e-12, atol=1e-12)
    assert figures.unknown_features == 0


def test_a_kernel_machine_and_csv(tmp_path):
    file, dataset, _ = made(tmp_path, "libsvm")
    indices = np.array([3, 300_100, 300_001], np.int32)
    vectors = SupportVectors(0.5, 300_101, np.array([0, 2, 3]), indices, np.ones(3, np.float32))
    machine = Model(np.array([1.0, -0.5]), (1.0, -1.0), 1, vectors=vectors)
    of_file, _ = predicted(tmp_path, machine, sources=[str(file)])
    assert of_file == predicted(tmp_path, machine, dataset=dataset)[0]
    request = PredictionRequest((), "csv", keep=("row", "label"), outputs=("label",), dataset=dataset)
    Engine(Predictor(machine), request, tmp_path / "pieces").run(str(tmp_path / "out.csv"))
    first, second = (tmp_path / "out.csv").read_text().splitlines()[:2]
    assert first == "row,input_label,label" and second.startswith("0,-1,")


def test_what_does_not_fit_is_refused(tmp_path):
    _, dataset, model = made(tmp_path, "csv")
    with pytest.raises(InputError) as caught:
        predicted(tmp_path, model, ("size",), dataset=dataset)
    assert caught.value.code == "keep_missing" and "label" in caught.value.hint
    _, other, _ = made(_folder(tmp_path / "text"), "text")
    with refused(ServiceError, "input_mismatch"):
        predicted(tmp_path, model, dataset=other)


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


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
    monkeypatch.setattr(file_rows, "UNIT_ROWS", 150)
    path = arrow_file(tmp_path / "rows.arrow", named_batches(), as_file, compression=compression)
    cut = file_rows.FileSource(Predictor(LINEAR), [str(path)], InputOptions(), (), SMALL).units()
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
        found = file_rows.FileSource(Predictor(LINEAR), [str(path)], InputOptions(), (), SMALL).units()
        return [each.are_groups for each in found]

    monkeypatch.setattr(file_rows, "UNIT_ROWS", 300)
    assert (cut(path), cut(streams), cut(damaged)) == ([True, True], [False], [False])
    found = parquet.read_table(run(tmp_path, "out.parquet", streams, keep=("id",)))
    assert found["id"].to_pylist() == 2 * table(600)["id"].to_pylist()
    with pytest.raises(InputError, match="cut"):
        run(tmp_path, "none.parquet", damaged)
    monkeypatch.setattr(stored, "_MOST_GROUP_BYTES", 1000)
    assert cut(path) == [False]
