"""nothing -> the public names."""
