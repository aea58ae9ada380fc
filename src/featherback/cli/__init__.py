"""The command line: arguments and printing only; no other room imports it."""
