"""an index + questions -> which method answers them best, at what cost, and how sure that is."""
