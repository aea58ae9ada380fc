"""Experiments that train a network through the simulator; they need PyTorch."""
