"""The screens and the colours that pages are tried on."""

import pytest

SCREENS = {"desk": {"width": 1200, "height": 900}, "phone": {"width": 390, "height": 844}}
# Colours are of a scheme, and what has to be scrolled is of a screen: two of the four have them all.
every_look = pytest.mark.parametrize(("screen", "scheme"), [("desk", "light"), ("phone", "dark")])
