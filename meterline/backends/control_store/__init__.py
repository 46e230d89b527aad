"""The control store: what people define and how far the work is, in SQLite or PostgreSQL."""
