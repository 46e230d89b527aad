"""A crash in a process that has chDB ends it at once.

chDB takes the signals of a crash. Its handler waits up to five minutes for a thread that writes a
report, and chDB begins no such thread. The thread that crashed may hold the interpreter's lock:
then the process lives on for so long, takes connections, and answers none of them.
"""

from functools import cache
from importlib import import_module


@cache
def let_crashes_end() -> None:
    """Give the signals of a crash back to the system, for every engine of this process. Call it
    before an engine is opened; the import of chDB has opened and closed one.
    """
    import_module("chdb._chdb").set_signal_handlers_enabled(0)
