"""What people do in the console: every form, by keyboard alone, and looked at by axe."""
