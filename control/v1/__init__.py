"""API v1 and v2, as the peer has them."""
