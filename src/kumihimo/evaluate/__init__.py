"""An index and questions -> a comparison of methods by quality, cost and confidence."""
