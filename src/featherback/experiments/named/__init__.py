"""One module for each experiment; the module racecar_friction is the experiment racecar-friction.

A module has `SUMMARY`, one sentence, and `run(context) -> Result`. One whose name begins with an
underscore is a helper of others.
"""
