"""The commands of `meterline`, except `up` and the roles."""
