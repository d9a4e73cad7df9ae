"""Single values as people give them: taken, or refused in a sentence that names argument, value and what was expected."""
# SPDX-License-Identifier: Apache-2.0

from .errors import InvalidArgument

MOST = 2**63 - 1  # the largest number of the library, which counts in 64 bits


def whole(value, argument, least=None, most=None):
    """A whole number, of NumPy too, at least `least` and at most `most`."""
    try:
        number = None if isinstance(value, bool) else value.__index__()
    except (AttributeError, TypeError):
        number = None
    if number is None or (least is not None and number < least) or (most is not None and number > most):
        bounds = [f"at {name} {bound}" for name, bound in (("least", least), ("most", most)) if bound is not None]
        raise InvalidArgument(f"{argument} is {value!r}, expected a whole number" + (" of " if bounds else "") + " and ".join(bounds))
    return number


def real(value, argument):
    """A number that may have a fraction. Infinite ones are the library's to refuse."""
    try:
        if not isinstance(value, (str, bytes)):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InvalidArgument(f"{argument} is {value!r}, expected a number")


def flag(value, argument):
    """True or False, as which 1 and 0 count too."""
    if value is True or value is False:
        return value
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    raise InvalidArgument(f"{argument} is {value!r}, expected True or False")
