"""figures -> the terminal: one file for each number that is published."""
