"""data sets -> measured figures: one file for each published benchmark."""
