"""Spark's declarative pipelines as jobs: each data set that a pipeline stores is a vertex.

`description` makes the job of a `spark-pipeline.yml` where it is submitted, without a Spark; `refresh` is the task that brings one data set
up to date. Both read the definitions by `definitions`. The rule this package keeps: a data set is written by operations of the task's own
session, which end when that is released. Spark's own runner (`StartRun`) goes on when its session has been closed.
"""
