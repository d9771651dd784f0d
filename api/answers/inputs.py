"""How rows were made of the data that were sent, for datasets and models."""

from streamsvm.api.answers import Answer, field, sometimes


class RowsInput(Answer):
    """How documents, tables or strings of bases become rows; the fields that are missing mean nothing to the format."""

    format: str = field("format of the data; of models of tables always `table`", example="csv")
    n_features: int = sometimes("numbers that words, or categories, are hashed to")
    analyzer: str = sometimes("of documents, `word`, `char` or `char_wb`: what n-grams are made of")
    ngram_range: list[int] = sometimes("of documents: the least and the most words or characters of an n-gram")
    alternate_sign: bool = sometimes("of documents: whether half of the features count negatively")
    lowercase: bool = sometimes("of documents: whether capitals become small letters")
    text_column: str = sometimes("column with the documents")
    length: int = sometimes("of strings of bases: letters that each has")
    alphabet: str = sometimes("of strings of bases: the letters", example="ACGT")
    string_column: str | None = sometimes("column with the strings of bases")
    has_names: bool = sometimes("of tables: whether columns have names")
    header: str = sometimes("of tables: `yes` or `no`, the option `header` that tables of the same kind need")
    n_columns: int = sometimes("columns of the table")
    order: str = sometimes("of tables: `names`: rows hold columns in the order of their names, else as they stand")
    columns: list[str] = sometimes("names of the columns that became features, the first 1,000")
    places: list[int] = sometimes("places of these columns in the table, from 0, the first 1,000")
    dropped: list[str] = sometimes("names of columns that were left out, the first 1,000")
    label_column: str = sometimes("column with the labels")
    weight_column: str = sometimes("column with the weights of rows")
    group_column: str = sometimes("column with the groups of rows")
    categorical: list[str] = sometimes("names of the columns that hold categories")
    missing: str = sometimes("what became of missing values: `error`, `zero` or `indicator`")
    categories: str = sometimes("`dictionary`: each category is a feature; `hashed`: categories share `n_features`")
    category_counts: dict[str, int] = sometimes("number of categories of each column")


class Notice(Answer):
    """A warning."""

    code: str = field("the kind of warning: it stays the same from version to version", example="not_converged")
    message: str = field("what was noticed, for people")
    hint: str = sometimes("what helps, for people")


class FeatureMap(Answer):
    """A feature map and its options, as a model carries it."""

    name: str = field("name of the map", example="scale")
    options: dict[str, bool | float | str | None] = field("its options, defaults filled in")
