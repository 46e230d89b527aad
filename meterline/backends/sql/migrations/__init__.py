"""Numbered migrations of the control store, run by `meterline.backends.sql.migrate`."""
