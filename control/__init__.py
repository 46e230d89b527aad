"""The API: what people define, ask and see."""
