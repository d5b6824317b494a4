"""The league: every policy on every trace and shape, ranked by cost at a met objective."""
