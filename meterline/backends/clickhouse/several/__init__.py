"""Several ClickHouse servers as one usage store: shards, or replicas."""
