"""Usage queries, for all API versions: validate the query, write the answer."""
