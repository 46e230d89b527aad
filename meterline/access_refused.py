"""What a server says to the wrong user, password or database."""

from meterline.ports import Unavailable


class AccessRefused(Unavailable):
    """A server answers, but not to this user, password or database: a person must correct it."""
