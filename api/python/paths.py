"""Predictions of files into a file, or batch by batch, in memory that does not grow with them."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from streamsvm.errors import told_plainly
from streamsvm.reader.options import InputOptions, options_from
from streamsvm.reader.sources.locations import is_url
from streamsvm.service.models.predicting.predictor import Predictor
from streamsvm.service.predictions.engine import Engine
from streamsvm.service.predictions.reading import predictions_of_files
from streamsvm.service.predictions.request import Request, format_of_destination, outputs_of
from streamsvm.storage.rows.csr import Array

if TYPE_CHECKING:
    from streamsvm.storage.models.model_file import Model

Source = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class PathPredictions:
    """The method `predict_path` of fitted models."""

    if TYPE_CHECKING:
        classes_: Array

        def _as_it_is(self) -> Model: ...

    def _to_judge(self) -> "Model":
        """The model whose labels are those of the rows of files and frames."""
        return self._as_it_is()

    def predict_path(
        self,
        source: Source,
        destination: str | os.PathLike[str] | None = None,
        *,
        keep: Sequence[str] = (),
        outputs: Sequence[str] | None = None,
        threads: int | None = None,
        input_options: dict[str, Any] | None = None,
    ) -> Any:
        """Predict files into a file, on all cores; a call that is repeated after a kill goes on where it was.

        Parameters
        ----------
        source : path, URL or pattern, or a list of them
            Rows in any format of training; files follow each other, those of a pattern by name.
        destination : path or URL, default None
            A name that ends in .csv, .ndjson or .parquet. The file is written whole, or not at all. None: an iterator
            over the predictions is returned, arrays (n_rows_of_a_batch,) as `predict` makes them.
        keep : names or numbers of columns of tables
            They are written before the predictions.
        outputs : list of "label", "decision_value", "probability", "contributions", default None
            What is written; None: all that the model has but contributions. Regression has "value" in place of the
            first three.
        threads : int, default None
            None: all cores.
        input_options : dict, default None
            How the files are read; what is not said is found out, or as in training.

        Returns
        -------
        int, or an iterator
            The number of rows that were written.

        Raises
        ------
        InvalidInput
            A file cannot be read, or the destination not be written.
        """
        predictor = Predictor(self._as_it_is())
        paths = [os.fspath(each) for each in ([source] if isinstance(source, str | os.PathLike) else source)]
        with told_plainly():
            options = options_from(input_options)
            if destination is None:
                return self._batches(predictor, paths, options)
            name = os.fspath(destination)
            format_, wanted = format_of_destination(name), outputs_of(predictor, outputs)
            request = Request(paths, format_, options, tuple(keep), wanted)
            if not is_url(name):
                path = Path(name).resolve()
                return Engine(predictor, request, path.with_name(f".{path.name}.predicting"), threads).run(name).rows
            with TemporaryDirectory() as folder:
                return Engine(predictor, request, Path(folder) / "pieces", threads).run(name).rows

    def _batches(self, predictor: Predictor, paths: list[str], options: InputOptions) -> Iterator[Array]:
        with told_plainly():
            for prediction in predictions_of_files(predictor, paths, options):
                values = prediction.decision_values
                if predictor.is_regression:
                    yield values
                else:
                    yield self.classes_[values.argmax(axis=1) if values.ndim == 2 else (values > 0).astype(int)]
