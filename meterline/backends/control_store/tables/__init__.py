"""The tables of the control store, all on one metadata."""
