"""Splice sites: which GT of a genome is the start of an intron?"""

# %%
# The sequences are random and imitate the real task. Every window has GT in its middle, as every donor site has.
# One window in ten is a donor site: its GT stands within a motif, which has two forms.
# Half of the other windows are noise. The other half are near misses: they take each letter from either form.

from collections.abc import Iterator

import numpy as np
from scipy import sparse
from sklearn.metrics import average_precision_score

from streamsvm import StreamSVC

LETTERS = "ACGT"
LENGTH, MIDDLE = 40, 20
FORMS = np.array([[LETTERS.index(letter) for letter in form] for form in ("CAGGTAAGT", "ACCGTGCCA")])
MUTATED = 0.1  # of the letters of a motif


def windows(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return windows as numbers of letters, (n_rows, LENGTH), and whether each window is a site, (n_rows,)."""
    random = np.random.default_rng(seed)
    letters = random.integers(4, size=(n_rows, LENGTH))
    kind = random.choice(["site", "noise", "near miss"], n_rows, p=[0.1, 0.45, 0.45])
    one_form = random.integers(2, size=(n_rows, 1))
    any_form = random.integers(2, size=(n_rows, FORMS.shape[1]))
    form = np.where((kind == "site")[:, None], one_form, any_form)
    motif = np.where(form == 0, *FORMS)
    kept = (kind != "noise")[:, None] & (random.random(motif.shape) >= MUTATED)
    around = letters[:, MIDDLE - 3 : MIDDLE + 6]  # a view
    around[:] = np.where(kept, motif, around)
    letters[:, MIDDLE : MIDDLE + 2] = LETTERS.index("G"), LETTERS.index("T")
    return letters, kind == "site"


letters, is_site = windows(200, seed=1000)
for row in letters[is_site][:4]:
    print("".join(LETTERS[letter] for letter in row))

# %%
# A linear model sees no order of letters. So each word of k letters, at each place, is a column of its own: there are
# 4^k words, and a row has a one for each place. With k = 1 this is what is called one-hot.


def words(letters: np.ndarray, longest: int) -> sparse.csr_matrix:
    """Return a row of ones and zeros for each window: a column for each place and word of up to `longest` letters."""
    n_rows, length = letters.shape
    found, columns = [], 0
    for k in range(1, longest + 1):
        places = np.arange(length - k + 1)
        word = sum(letters[:, i : i + len(places)] * 4 ** (k - 1 - i) for i in range(k))
        found.append(columns + 4**k * places + word)
        columns += 4**k * len(places)
    indices = np.hstack(found)
    indptr = np.arange(n_rows + 1) * indices.shape[1]
    return sparse.csr_matrix((np.ones(indices.size, np.float32), indices.ravel(), indptr), (n_rows, columns))


# %%
# Windows are made, or read, some at a time. A chromosome has more of them than fit in memory.


def chunks(longest: int) -> Iterator[tuple[sparse.csr_matrix, np.ndarray]]:
    """Yield rows for training, and their labels."""
    for seed in range(10):
        letters, is_site = windows(1200, seed)
        yield words(letters, longest), is_site


# %%
# Sites are rare, so accuracy says little: a model that always says "no" is right nine times of ten.
# Average precision tells more: it is 1 if all sites come first, and 0.1 if their order is chance.
# `class_weight` makes sites count more in training.
# Letters alone cannot tell a site from a near miss: both have the same letters at the same places. Words can.

test_letters, test_is_site = windows(4000, seed=1000)
precision = {}
for longest in (1, 2, 3):
    model = StreamSVC(C=0.01, class_weight="balanced").fit(chunks(longest))
    decision = model.decision_function(words(test_letters, longest))
    precision[longest] = average_precision_score(test_is_site, decision)
    print(f"words of up to {longest}: {model.n_features_in_:,} columns, average precision {precision[longest]:.3f}")
