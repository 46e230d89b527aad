"""The log becomes usage: records in, rows of tumbling windows out, exactly once."""
