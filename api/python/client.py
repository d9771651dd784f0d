"""The client of a service for Python: hints of its errors name arguments of calls, not fields of JSON."""

from streamsvm.errors import as_arguments
from streamsvm.service.remote.client import Client as ServiceClient
from streamsvm.service.remote.connection import Refusal


class Client(ServiceClient):
    """A service at an address. Calls raise ServiceError if the service refuses a request, or does not answer.

    Parameters
    ----------
    url : str, default="http://localhost:8000"
        Address of the service.
    token : str, default=None
        Token to send; None: the value of the environment variable STREAMSVM_TOKEN, if it is set.
    retries : int, default=3
        How often to repeat a request that changes nothing and gets no answer, or a request that sends rows while the
        service is too busy.
    """

    where = "Start one with streamsvm serve, or give the address of one: Client(url)."

    def told(self, error: Refusal) -> Refusal:
        """Return the error, with its hint rewritten for Python and added as a note, which tracebacks show."""
        error.hint = as_arguments(error.hint)
        if error.hint:
            error.add_note(f"{error.hint} [{error.code}]")
        return error
