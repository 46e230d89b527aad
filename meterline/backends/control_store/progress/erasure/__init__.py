"""Who is erased, and which copies stand for their events."""
