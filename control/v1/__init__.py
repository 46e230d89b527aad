"""API v1 and v2, compatible with OpenMeter."""
