"""answers of several systems -> verdicts on each pair of them, or ratings of each, as the papers ask, and as we do."""
