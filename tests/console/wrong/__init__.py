"""What is shown where something is wrong."""
