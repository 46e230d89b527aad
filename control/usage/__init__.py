"""Usage, in every version of the API: a question checked, and its answer written."""
