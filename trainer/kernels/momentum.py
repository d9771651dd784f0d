"""Going on in the direction of a sweep."""

from numba import njit

from storage.csr import Array

# move_on(x (n,), earlier (n,), beta): x <- x + beta (x - earlier), earlier <- what x was, in place.


@njit(cache=True, nogil=True)
def move_on(x: Array, earlier: Array, beta: float) -> None:
    for i in range(x.shape[0]):
        was = x[i]
        x[i] = was + beta * (was - earlier[i])
        earlier[i] = was
