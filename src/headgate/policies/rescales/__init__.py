"""Results of earlier changes of size, for the policies that learn from them."""
