"""Sending webhooks: one POST and its result, and which addresses may be dialled."""
