"""Reports, their runs, and windows with late usage."""
