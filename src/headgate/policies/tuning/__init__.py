"""How a policy finds better settings for itself: a model that tells what others would have cost, and a search."""
