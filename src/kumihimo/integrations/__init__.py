"""an index -> retrievers, tools and query engines of other frameworks; each module needs the extra of its name."""
