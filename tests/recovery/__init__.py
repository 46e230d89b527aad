"""A year's flights through backup, loss, restore, move and upgrade, against the oracle.

`python -m tests.recovery` runs all of it, and `tests/journey/test_recovery.py` a part of it.
"""
