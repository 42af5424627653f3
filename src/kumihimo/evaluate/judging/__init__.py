"""answers of several systems -> verdicts on pairs, or ratings, by published protocols and our own."""
