"""What the policies that learn the value of actions share: the table, the rewards, and the agent that has both."""
