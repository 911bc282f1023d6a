"""The benchmark suite: this project beside what a user would pick instead, in turn, on one machine.

    python -m benchmarks.suite --help

docs/benchmarks.md says what is measured and how it is kept fair.
"""
