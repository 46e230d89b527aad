"""Numbered migrations of the control store, run by `meterline.backends.control_store.migrate`."""
