"""One script for each library; it runs in the environment of that library, which has nothing else of this project."""
