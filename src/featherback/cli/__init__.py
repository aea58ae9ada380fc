"""The command line: arguments and printing only; no other layer imports it."""
