"""Backfill: new meter revisions are filled in from the raw events of slices sealed before them."""
