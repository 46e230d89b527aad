"""What chDB does not do by itself: its folder is mended and synced, its parts are looked at."""
