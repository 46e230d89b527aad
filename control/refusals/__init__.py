"""Events that count nowhere, in every version of the API: found, explained, settled."""
