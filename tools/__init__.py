"""Checks of the sources, mutants of the adjoints, mutated models, and the corpus of robots."""
