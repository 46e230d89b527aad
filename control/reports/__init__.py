"""Reports, in every version of the API: what a report must be, and what its operations stand on."""
