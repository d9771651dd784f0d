"""Text: which of two libraries does a paragraph document, and how sure is the model of it?"""

# %%
# The texts are the docstrings of scipy and of scikit-learn, which are installed anyway. A row is a paragraph.
# Every fourth file is for the test. Paragraphs of one file resemble each other, so they stay on one side.

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy
import sklearn
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer

from streamsvm import StreamSVC


def paragraphs(path: Path) -> list[str]:
    """Return the paragraphs of the docstrings of a file that have eight words or more."""
    docstrings = re.findall(r'"""(.*?)"""', path.read_text(), re.DOTALL)
    return [each for text in docstrings for each in text.split("\n\n") if len(each.split()) >= 8]


def files(is_test: bool) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the paragraphs of each file, and for each the name of its library."""
    for library in (scipy, sklearn):
        paths = sorted(Path(library.__file__).parent.rglob("*.py"))
        for number, path in enumerate(paths):
            if (number % 4 == 0) == is_test and "tests" not in path.parts and (found := paragraphs(path)):
                yield found, [library.__name__] * len(found)


# %%
# Words are hashed to columns. Nothing is learned for that, so no file needs to know of the others.
# The names of the libraries would give them away. They are left out.

names = ["scipy", "sklearn", "scikit", "learn"]
vectorizer = HashingVectorizer(n_features=2**18, alternate_sign=False, stop_words=names)


def chunks(is_test: bool) -> Iterator[tuple[sparse.csr_matrix, list[str]]]:
    """Yield the rows and the labels of each file."""
    for texts, labels in files(is_test):
        yield vectorizer.transform(texts), labels


# %%
# `fit` takes the files as they come and keeps none in memory: texts may be larger than it.
# `probability="sigmoid"` makes probabilities of decision values. Its sigmoid is fitted on rows held out, in `cv` folds.

model = StreamSVC(C=1.0, probability="sigmoid", cv=3).fit(chunks(is_test=False))
print(f"M+ - M- is {model.certificate_.gap:.1e}; the classes are {', '.join(model.classes_)}")

# %%
# About nine of ten paragraphs of the files held out are told right.

test = list(chunks(is_test=True))
X, y = sparse.vstack([rows for rows, _ in test]), np.concatenate([labels for _, labels in test])
accuracy = model.score(X, y)
print(f"accuracy {accuracy:.3f} on {len(y):,} paragraphs")

# %%
# The probabilities say which answers to trust. Of the paragraphs that the model is sure of, nearly all are told right.
# Between them it guesses: those are the ones to give to a person.

probability = model.predict_proba(X).max(axis=1)
is_right = model.predict(X) == y
is_sure = probability >= 0.9
sure, unsure = is_right[is_sure].mean(), is_right[~is_sure].mean()
print(f"sure of {is_sure.mean():.0%}: accuracy {sure:.3f}; of the others: {unsure:.3f}")

# %%
# The model takes any text.

sentences = [
    "Fit the estimator on the training samples and predict the class of each.",
    "Compute the integral of a function by an adaptive quadrature.",
]
answers = model.predict_proba(vectorizer.transform(sentences))
for sentence, row in zip(sentences, answers, strict=True):
    print(f"{model.classes_[row.argmax()]} ({row.max():.2f}): {sentence}")
