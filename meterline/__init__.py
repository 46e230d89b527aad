"""What all stages speak: values, pure rules, ports; beside them adapters and composition."""
