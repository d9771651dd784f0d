"""Serving: a service trains a model; Triton's client, which knows nothing of StreamSVM, gets predictions from it."""

# %%
# Start a service first: `streamsvm serve`. `pip install 'tritonclient[http]'` installs the client.
# The data come with scikit-learn: pictures of digits.

import os
import tempfile
from pathlib import Path

import numpy as np
import tritonclient.http as triton
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
# The service speaks the Open Inference Protocol, as Triton and KServe do. A model's id is its name.
# The client asks what the model takes and what it gives.

server = triton.InferenceServerClient(url.removeprefix("http://"))
takes = server.get_model_metadata(model.id)
for end in ("inputs", "outputs"):
    print(end, ", ".join(f"{tensor['name']} {tensor['datatype']} {tensor['shape']}" for tensor in takes[end]))


def tensor(name: str, values: np.ndarray) -> triton.InferInput:
    """One input, sent as bytes."""
    made = triton.InferInput(name, values.shape, triton.np_to_triton_dtype(values.dtype))
    made.set_data_from_numpy(values)
    return made


# %%
# Dense rows are one tensor, X.

answer = server.infer(model.id, [tensor("X", pictures[is_test])])
labels, probability = answer.as_numpy("label"), answer.as_numpy("probability")
accuracy = np.mean(labels == digits[is_test])
print(f"accuracy {accuracy:.3f}; the first is a {labels[0]:g} with probability {probability[0].max():.2f}")

# %%
# Sparse rows are three, as in scipy's CSR matrices. Features are numbered as in the file: from 1.

rows = sparse.csr_matrix(pictures[is_test])
parts = {"indptr": rows.indptr, "indices": rows.indices + 1, "values": rows.data}
answer = server.infer(model.id, [tensor(name, values) for name, values in parts.items()])
labels_of_sparse = answer.as_numpy("label")
print(f"the same labels: {np.array_equal(labels, labels_of_sparse)}")

# %%
# The model can be downloaded. Loaded from its file, it predicts the same labels without a service.

model.download(folder / "digits.npz")
labels_here = streamsvm.load(folder / "digits.npz").predict(pictures[is_test])
print(f"the same labels here: {np.array_equal(labels, labels_here)}")
