"""A table with categories: columns of names and of numbers, a column of answers, in a CSV file."""

# %%
# The table is made up: 12,000 customers, and whether each came back. The day has nothing to do with it.
# One in twenty countries is not known.

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from streamsvm import StreamSVC

random = np.random.default_rng(0)
n_rows = 12_000
table = pd.DataFrame(
    {
        "plan": random.choice(["free", "basic", "team"], n_rows, p=[0.6, 0.3, 0.1]),
        "country": random.choice(["at", "br", "ca", "de", "in", "jp"], n_rows),
        "day": random.choice(["mon", "tue", "wed", "thu", "fri"], n_rows),
        "age": random.integers(18, 80, n_rows),
        "visits": random.poisson(4, n_rows),
    }
)
score = (
    table["plan"].map({"free": -1.5, "basic": 0.5, "team": 2.0})
    + table["country"].map({"at": 0.8, "br": -0.4, "ca": 0.0, "de": 0.4, "in": -0.8, "jp": 0.0})
    + 0.03 * (table["age"] - 45)
    + 0.3 * (table["visits"] - 4)
)
came_back = score + random.logistic(scale=0.5, size=n_rows) > 0
table["answer"] = np.where(came_back, "came back", "left")
table.loc[random.random(n_rows) < 0.05, "country"] = None

path = Path(tempfile.mkdtemp(prefix="streamsvm-example-")) / "customers.csv"
table.to_csv(path, index=False)

# %%
# A linear model needs a column of its own for each category: scikit-learn's OneHotEncoder makes them.
# Numbers are scaled, so that a step in each means about as much. What is not known is a category, too.

numbers, categories = ["age", "visits"], ["plan", "country", "day"]
table = pd.read_csv(path)
is_test = np.arange(n_rows) % 4 == 0
train, test = table[~is_test], table[is_test]

to_columns = make_column_transformer(
    (StandardScaler(), numbers),
    (
        make_pipeline(SimpleImputer(strategy="constant", fill_value="unknown"), OneHotEncoder(handle_unknown="ignore")),
        categories,
    ),
    sparse_threshold=1.0,
)
pipeline = make_pipeline(to_columns, StreamSVC(C=1.0))
pipeline.fit(train, train["answer"])
accuracy = pipeline.score(test, test["answer"])
commonest = test["answer"].value_counts(normalize=True).max()
print(f"accuracy {accuracy:.3f}; a model that always gives the commonest answer has {commonest:.3f}")

# %%
# Weights say what counts. Those above 0 speak for the second class, the others for the first.

model = pipeline[-1]
weights = pd.Series(model.coef_[0], to_columns.get_feature_names_out()).sort_values()
print(f"\nfor '{model.classes_[1]}' if above 0:\n{weights.to_string(float_format='{:.2f}'.format)}")

# %%
# A table that does not fit in memory is read in parts. The encoder learns its categories from the first rows.
# `fit` takes the parts one after another, and keeps none in memory.


def parts() -> Iterator[pd.DataFrame]:
    """Yield the rows for training, some at a time."""
    with pd.read_csv(path, chunksize=2000) as reader:
        for part in reader:
            yield part[part.index % 4 != 0]


first = pd.read_csv(path, nrows=2000)
to_columns.fit(first[first.index % 4 != 0])
streamed = StreamSVC(C=1.0).fit((to_columns.transform(part), part["answer"]) for part in parts())
accuracy_streamed = streamed.score(to_columns.transform(test), test["answer"])
print(f"\naccuracy {accuracy_streamed:.3f} in parts")

# %%
# A file of numbers alone needs no Python to read it: `fit` takes its path, and the name of the column with the answers.
# Its columns have names, and the model finds them by these, in any order.


def encode(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows as columns of numbers, with their names."""
    return pd.DataFrame(to_columns.transform(rows).toarray(), columns=to_columns.get_feature_names_out())


encoded = path.with_name("encoded.csv")
encode(train).assign(answer=train["answer"].to_numpy()).to_csv(encoded, index=False)
from_file = StreamSVC(C=1.0).fit(encoded, "answer")
accuracy_from_file = from_file.score(encode(test), test["answer"])
print(f"accuracy {accuracy_from_file:.3f} from the file")
