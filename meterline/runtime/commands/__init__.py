"""The commands of `meterline` beside `up` and the roles."""
