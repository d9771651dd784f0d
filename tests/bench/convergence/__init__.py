"""Whether training ends, and how soon: hard problems by this program and by others, held against certified optima."""
