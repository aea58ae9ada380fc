"""Small mistakes in the hand-written adjoints, one at a time, against the tests."""
