"""A session by a client that was generated from the OpenAPI document: python generated_session.py URL TOKEN.

The test beside it generates the package `streamsvm_client`, and checks the types of this program: nothing is Any.
"""

import sys
from io import BytesIO

from streamsvm_client import AuthenticatedClient
from streamsvm_client.api.datasets import get_dataset, list_blocks, put_dataset
from streamsvm_client.api.jobs import estimate_job, get_job, get_job_history, submit_job
from streamsvm_client.api.models import download_model, evaluate, get_model, list_models, predict
from streamsvm_client.api.registered_models import get_registered_model, register_model
from streamsvm_client.models import (
    Blocks,
    ClassEvaluation,
    ClassifiedRow,
    Dataset,
    Estimate,
    EvaluationRequest,
    History,
    Job,
    JobSpec,
    Model,
    Models,
    Predictions,
    Problem,
    RegisteredModel,
    RegisteredVersion,
    RegistrationRequest,
    RowsToPredict,
)
from streamsvm_client.types import File, Unset

ROWS = b"".join(b"%d %d:1 3:0.5\n" % (label, 1 if label > 0 else 2) for label in (1, -1) * 100)


def check(is_true: bool, said: object) -> None:
    """End the program unless something is true."""
    if not is_true:
        sys.exit(f"not as it should be: {said}")


def add_dataset(client: AuthenticatedClient) -> None:
    """Upload the rows, and look at the dataset."""
    made = put_dataset.sync("typed", client=client, body=File(BytesIO(ROWS)))
    check(isinstance(made, Dataset), made)
    shown = get_dataset.sync("typed", client=client)
    assert isinstance(shown, Dataset)
    check((shown.rows, shown.features, shown.label_counts["-1"]) == (200, 3, 100), shown)
    check(shown.weights is None and shown.profile is not None and shown.profile.longest[0].non_zeros == 2, shown)
    blocks = list_blocks.sync("typed", client=client)
    assert isinstance(blocks, Blocks)
    check([(block.block, block.rows) for block in blocks.blocks] == [(0, 200)], blocks)
    missing = get_dataset.sync("missing", client=client)
    assert isinstance(missing, Problem)
    check((missing.code, missing.status, isinstance(missing.at.line, Unset)) == ("unknown_dataset", 404, True), missing)


def train(client: AuthenticatedClient) -> str:
    """Run a job to its end; return the id of its model."""
    spec = JobSpec(dataset="typed", c=10.0, relative_gap=1e-6)
    estimated = estimate_job.sync(client=client, body=spec)
    assert isinstance(estimated, Estimate)
    check(estimated.memory.total_bytes > estimated.memory.cache_bytes > 0, estimated)
    job = submit_job.sync(client=client, body=spec)
    assert isinstance(job, Job), job
    check(job.spec.c == 10.0, job.spec)
    while job.finished_at is None:
        job = get_job.sync(job.id, client=client, wait_seconds=10.0, after=job.seq)
        assert isinstance(job, Job)
    assert job.result is not None and job.model_id is not None, job.failure
    gap = job.result.certificate.relative_duality_gap
    check(job.result.converged and gap is not None and gap <= 1e-6, job.result)
    history = get_job_history.sync(job.id, client=client)
    assert isinstance(history, History)
    check(sum(each.updates for each in history.passes) > 0 and history.passes[0].pass_ == 1, history)
    return job.model_id


def use(client: AuthenticatedClient, model_id: str) -> None:
    """Look at a model, register it, evaluate it, and predict with it."""
    model = get_model.sync(model_id, client=client)
    assert isinstance(model, Model)
    check(model.labels == [1.0, -1.0] and model.spec is not None and model.spec.dataset == "typed", model)
    models = list_models.sync(client=client)
    assert isinstance(models, Models)
    check(model_id in [each.id for each in models.models], models)
    version = register_model.sync(model_id, client=client, body=RegistrationRequest("typed"))
    assert isinstance(version, RegisteredVersion)
    registered = get_registered_model.sync("typed", client=client)
    assert isinstance(registered, RegisteredModel)
    check([each.version for each in registered.versions] == [version.version] == [1], registered)
    evaluation = evaluate.sync(model_id, client=client, body=EvaluationRequest("typed"))
    assert isinstance(evaluation, ClassEvaluation)
    check(evaluation.accuracy == 1.0 and evaluation.confusion.rows == [[100.0, 0.0], [0.0, 100.0]], evaluation)
    predictions = predict.sync(model_id, client=client, body=RowsToPredict([[1.0, 0.0, 0.5]]))
    assert isinstance(predictions, Predictions)
    (first,) = predictions.predictions
    assert isinstance(first, ClassifiedRow) and isinstance(first.decision_value, float)
    check(first.label == 1.0 and first.decision_value > 0, first)
    text = predict.sync(model_id, client=client, body=File(BytesIO(b"0 2:1 3:0.5\n")))
    assert isinstance(text, Predictions)
    check([row.label for row in text.predictions if isinstance(row, ClassifiedRow)] == [-1.0], text)
    # Of an answer without a body, such as 304, the client knows no type.
    file: object = download_model.sync(model_id, client=client)
    assert isinstance(file, File)
    check(file.payload.read().startswith(b"solver_type"), file)


def main(url: str, token: str) -> None:
    """Go through a session."""
    client = AuthenticatedClient(url, token)
    add_dataset(client)
    model_id = train(client)
    use(client, model_id)
    print("as it should be")


if __name__ == "__main__":
    main(*sys.argv[1:])
