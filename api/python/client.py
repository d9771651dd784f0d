"""The client of a service whose hints name arguments, as calls from Python have them."""

from streamsvm.errors import as_arguments
from streamsvm.service.remote.client import Client as ServiceClient
from streamsvm.service.remote.connection import Refusal


class Client(ServiceClient):
    """The service at an address. Raises ServiceError if the service refuses a request, or does not answer.

    Parameters
    ----------
    url : str, default="http://localhost:8000"
        Its address.
    token : str, default=None
        None: the one in the environment variable STREAMSVM_TOKEN, if it is set.
    retries : int, default=3
        How often to repeat a request that changes nothing and that no service answers, and rows that the service is
        too busy for.
    """

    where = "Start one with streamsvm serve, or give the address of one: Client(url)."

    def told(self, error: Refusal) -> Refusal:
        """The error with its hint for Python, which tracebacks show."""
        error.hint = as_arguments(error.hint)
        if error.hint:
            error.add_note(f"{error.hint} [{error.code}]")
        return error
