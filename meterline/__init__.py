"""The language of all stages: values and pure rules, and the ports that the stages talk through."""
