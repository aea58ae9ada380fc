"""Checks that no linter does: layers, tags of equations, sizes, adjoints, a compiler for GPUs."""
