"""The OpenAPI documents, generated from the operations."""
