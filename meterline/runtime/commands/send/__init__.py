"""`meterline send`: events from a file or a pipe to a server."""
