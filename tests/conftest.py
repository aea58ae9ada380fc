"""Profiles of hypothesis: the same examples in every run, and for mutants none made smaller."""

from hypothesis import Phase, settings

settings.register_profile("fixed", derandomize=True, deadline=None, database=None, max_examples=200)
settings.register_profile("unshrunk", settings.get_profile("fixed"), phases=[Phase.generate])
settings.load_profile("fixed")
