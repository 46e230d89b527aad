"""Deliveries: claims, attempts, endpoints, replays."""
