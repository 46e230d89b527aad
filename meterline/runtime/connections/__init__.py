"""What connections to servers are made with: TLS, passwords and tokens, read from files that may
change while the process runs.
"""
