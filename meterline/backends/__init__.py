"""Adapters: the only code that knows a product."""
