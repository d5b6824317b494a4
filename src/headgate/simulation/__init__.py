"""Jobs that run in virtual time: models of how work gets done, and an engine on top of them."""
