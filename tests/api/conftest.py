"""An empty service for each test, and one that tests share and only read."""

import pytest

from tests.api.app import Service, some_model


@pytest.fixture
def service(tmp_path):
    return Service(tmp_path)


@pytest.fixture(scope="session")
def filled(tmp_path_factory):
    """Has the dataset `data` and two models of it: `model` and `half`, whose labels no C int can hold."""
    service = Service(tmp_path_factory.mktemp("service"))
    dataset_id = service.add_dataset("data")
    service.model = service.add_model(dataset_id, some_model())
    service.half = service.add_model(dataset_id, some_model((0.5, -0.5)))
    return service
