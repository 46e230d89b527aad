"""Several processes of one role on one port: a parent that holds the port, and its workers."""
