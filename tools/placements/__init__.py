"""Check all pairs of shapes on random placements, most of them at edges, against references."""
