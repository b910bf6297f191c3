"""Fuzzing of everything that a process reads which others may write: the real code, a law for each, inputs from a seed.

`engine.py` runs and counts, `generation.py` makes inputs out of recorded ones and of schemas, `targets.py` lists what is fuzzed; each
other module holds the laws of some targets. `corpus/` keeps inputs that once broke a law, or that are odd in a way of their own.

python -m tests.fuzz --help
"""
