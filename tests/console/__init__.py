"""The console in a real Chromium, against a live embedded server."""
