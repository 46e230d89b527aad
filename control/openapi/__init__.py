"""The OpenAPI documents, made from the operations."""
