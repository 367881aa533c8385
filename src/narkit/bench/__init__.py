"""Measurements that `narkit bench` prints and `benchmarks/` keeps."""
