"""Reports, for all API versions: validation rules, and the service behind the operations."""
