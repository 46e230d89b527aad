"""What brings records to the step: a poll loop (embedded) or Faust (distributed)."""
