"""Runs the graph of a batch job in this process, for authors who try it: without a cluster, on a Spark of its own."""
