"""files of public data sets -> the sets that the benchmarks read: `docs/research/data.md`."""
