"""Mutated model files: each must load or be refused with a sentence."""
