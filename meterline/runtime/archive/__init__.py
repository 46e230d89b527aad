"""Archives: all that an installation holds as a folder of plain files, written and read back."""
