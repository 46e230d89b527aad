"""The progress of counting: seals, backfill marks, and what audits read of them."""
