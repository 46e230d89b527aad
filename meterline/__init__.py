"""What all stages share: values, pure rules and ports. Also the adapters and the wiring."""
