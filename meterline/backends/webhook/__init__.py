"""Sending webhooks: one POST, which addresses may be dialled, what came of it."""
