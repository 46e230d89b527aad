"""Connections with TLS and logins, against real servers."""
