"""Loops that read records and call the step: a poll loop (embedded) or Faust (distributed)."""
