"""Serving: a service trains a model and predicts with it, for a client in Python and for any program over HTTP."""

# %%
# Start a service first: `streamsvm serve`. The data come with scikit-learn: pictures of digits.

import json
import os
import tempfile
from pathlib import Path
from urllib.request import Request, urlopen

import numpy as np
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_digits

import streamsvm
from streamsvm import Client

url = os.environ.get("STREAMSVM_URL", "http://localhost:8000")
pictures, digits = load_digits(return_X_y=True)
pictures /= 16  # pixels from 0 to 1
is_test = np.arange(len(digits)) % 4 == 0
folder = Path(tempfile.mkdtemp(prefix="streamsvm-example-"))
dump_svmlight_file(pictures[~is_test], digits[~is_test], str(folder / "digits.svm"), zero_based=False)

# %%
# `Client` has the service's datasets, jobs and models as objects. The file is uploaded once, for any number of jobs.

client = Client(url)
dataset = client.add_dataset("digits", folder / "digits.svm", index_base=1)
print(f"{dataset.view['rows']:,} rows, {dataset.view['features']} features")

# %%
# A job is training. `watch` tells what happens while it runs, and ends with it.

job = client.submit("digits", C=1.0, probability="sigmoid")
for kind, what in job.watch():
    if kind == "pass":
        print(f"pass {what['pass']}: {what['elapsed_seconds']:.1f} s")
(model,) = job.models
print(job.state, model.id)

# %%
# The service predicts rows that the client sends: a matrix, dense or sparse, a data frame, a file.

labels = model.predict(pictures[is_test])
labels_of_sparse = model.predict(sparse.csr_matrix(pictures[is_test]))
accuracy = np.mean(labels == digits[is_test])
print(f"accuracy {accuracy:.3f}")
print(f"the same labels: {np.array_equal(labels, labels_of_sparse)}")

# %%
# Other programs send rows over HTTP: here arrays in JSON. The answer has probabilities, too.

body = json.dumps({"rows": pictures[is_test].tolist()}).encode()
request = Request(f"{url}/v1/models/{model.id}/predict", body, {"Content-Type": "application/json"})
with urlopen(request) as answer:
    rows = json.load(answer)["predictions"]
probability = np.array([row["probability"] for row in rows])
print(f"the first is a {rows[0]['label']:g} with probability {probability[0].max():.2f}")

# %%
# The model can be downloaded. Loaded from its file, it predicts the same labels without a service.

model.download(folder / "digits.npz")
labels_here = streamsvm.load(folder / "digits.npz").predict(pictures[is_test])
print(f"the same labels here: {np.array_equal(labels, labels_here)}")
