"""Fixtures: an empty service for each test, and a filled one that tests share and only read."""

import pytest

from tests.api.app import Service, model_of_texts, some_model


@pytest.fixture
def service(tmp_path):
    return Service(tmp_path)


@pytest.fixture(scope="session")
def filled(tmp_path_factory):
    """Has the dataset `data` and models of it: `model`; `half`, whose labels no C int can hold; `texts`, of three."""
    service = Service(tmp_path_factory.mktemp("service"))
    dataset_id = service.add_dataset("data")
    service.model = service.add_model(dataset_id, some_model())
    service.half = service.add_model(dataset_id, some_model((0.5, -0.5)))
    service.texts = service.add_model(dataset_id, model_of_texts())
    return service
