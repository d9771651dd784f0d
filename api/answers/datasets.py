"""Answers about datasets."""

from typing import Literal

from streamsvm.api.answers import Answer, field, sometimes
from streamsvm.api.answers.errors import Place
from streamsvm.api.answers.inputs import Notice, RowsInput
from streamsvm.service.records.store import DATASET_STATES


class Fault(Answer):
    """A fault in the data."""

    code: str = field("the kind of fault", example="bad_number")
    detail: str = field("what is wrong, for people")
    hint: str = field("what helps, for people; empty if nothing is known to")
    at: Place = field("where the fault is")


class ReadSoFar(Answer):
    """How far a dataset has been read in."""

    total_bytes: int | None = field("bytes of the file as it was sent; null if that is not known")
    read_bytes: int = field("bytes read, as sent")
    rows: int = field("rows read")
    non_zeros: int = field("values other than 0 in these rows")


class DatasetSummary(Answer):
    """A dataset in any state, without its contents."""

    name: str = field("name of the dataset", example="rcv1")
    state: Literal[DATASET_STATES] = field(  # type: ignore[valid-type]
        "`ingesting`: it is being read in; `ready`: jobs can use it; `changing`: rows are added or removed; `failed`: "
        "`failure` says why it could not be read in"
    )
    created_at: str = field("time of the request that made it, UTC", example="2026-11-25T09:17:18.859Z")
    failure: Fault | None = field("why an import failed; else null")
    import_: str | None = field("file or URL of an import; null for an upload", alias="import")
    progress: ReadSoFar | None = field(
        "how far it has been read in; null before the first rows and when it is complete"
    )


class Weights(Answer):
    """The weights of the rows of a dataset."""

    sum: float = field("sum of all weights")
    min: float = field("the smallest")
    max: float = field("the largest")
    zero_rows: int = field("rows whose weight is 0 in training")


class SquaredNorms(Answer):
    """The squared Euclidean norms of the rows of a dataset."""

    min: float = field("the smallest")
    mean: float = field("the mean")
    max: float = field("the largest")


class LengthCount(Answer):
    """Rows with about as many non-zeros."""

    from_: int = field("least non-zeros", alias="from")
    to: int = field("most non-zeros")
    rows: int = field("rows with so many")


class LongRow(Answer):
    """One of the longest rows."""

    row: int = field("number of the row in the input, from 1")
    non_zeros: int = field("its values other than 0")


class FrequentFeature(Answer):
    """One of the most frequent features."""

    feature: int = field("number of the feature in the input")
    rows: int = field("rows that have it")


class FeatureScale(Answer):
    """One of the largest or smallest features."""

    feature: int = field("number of the feature in the input")
    name: str | None = field("name of the feature; null if it has none")
    size: float = field("root mean square of its values")


class Profile(Answer):
    """Figures of the rows that a dataset was made with; rows added later are not counted."""

    rows: int = field("number of these rows")
    lengths: list[LengthCount] = field("histogram of the non-zeros of rows")
    longest: list[LongRow] = field("the longest rows, longest first")
    frequent_features: list[FrequentFeature] = field("the most frequent features, most frequent first")
    counted_rows: int = field("rows that were counted for `frequent_features`, the first ones")
    far_scales: list[FeatureScale] = field("the largest and the smallest features; empty if scales are alike")


class Dataset(DatasetSummary):
    """A dataset whose rows are there."""

    uid: str = field("id of the contents: it changes when rows are added or removed")
    rows: int = field("number of rows")
    features: int = field(
        "features of a model trained on it: the largest number of a feature, + 1 if `index_base` is 0"
    )
    non_zeros: int = field("values other than 0")
    label_type: Literal["number", "string"] = field("whether labels are numbers or texts")
    label_range: list[float] | None = field("the smallest and the largest label; null if labels are texts")
    label_counts: dict[str, int] = field("label -> its rows; empty if there are very many labels", example={"1": 3})
    weights: Weights | None = field("weights of the rows; null: each counts once")
    has_groups: bool = field("whether some rows belong together, and so to one fold")
    index_base: int = field("number of the first feature in the input, 0 or 1")
    longest_row: int = field("most non-zeros of a row")
    blocks: int = field("number of blocks")
    machines: int | None = field("number of machines that have a part of the rows; null: all rows are on this one")
    input_bytes: int = field("bytes of the input, decompressed")
    decoded_bytes: int = field("bytes that all rows take in memory: compare it with `cache_bytes` of a job")
    stored_bytes: int = field("bytes of the blocks on disk")
    compression_ratio: float = field("`decoded_bytes` / `stored_bytes`")
    input: RowsInput | None = field("how rows were made of documents, tables or strings; null: features were numbered")
    normalize: str = field("`row_l2`: each row was divided by its norm; `none`")
    shuffle: str = field("`yes`: rows are stored in random order; `no`: in the order of the input")
    squared_norms: SquaredNorms = field("squared norms of the rows")
    rejected_rows: int = field("rows of the input that were left out")
    rejected: list[Fault] = field("faults of the first of them")
    profile: Profile | None = field("figures for people; null for old datasets")
    warnings: list[Notice] = field("columns that are probably no features")
    explicit_zeros: int = sometimes("values of 0 that were written, and left out")
    empty_rows: int = sometimes("rows without a value other than 0")
    blank_lines: int = sometimes("blank lines")
    comment_lines: int = sometimes("lines of comments")
    unknown_letters: int = sometimes("of strings of bases: letters that stand for several bases")


class Datasets(Answer):
    """All datasets."""

    datasets: list[DatasetSummary] = field("the datasets, by name")


class Block(Answer):
    """A block: rows that were added together, or a part of them."""

    block: int = field("number of the block, from 0; it stays when other blocks are removed")
    rows: int = field("its rows")
    non_zeros: int = field("values other than 0 in them")
    stored_bytes: int = field("its bytes on disk")


class Blocks(Answer):
    """The blocks of a dataset."""

    blocks: list[Block] = field("the blocks, by number")


class Feature(Answer):
    """A feature of a row."""

    feature: int = field("its number in the input")
    name: str | None = field("its name; null if it has none")
    value: float = field("its value")


class Row(Answer):
    """A row as it is stored: features, or a string."""

    label: str = field("label of the row, as text")
    non_zeros: int = sometimes("values other than 0")
    features: list[Feature] = sometimes("the first 25 features that are not 0")
    string: str = sometimes("the first 1,000 letters of the string")
    letters: int = sometimes("letters of the string")


class Sample(Answer):
    """Some rows of a dataset."""

    rows: list[Row] = field("the first rows of the first block")
