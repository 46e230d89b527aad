"""The usage store on ClickHouse, server or embedded (chDB): one adapter, the same SQL."""
