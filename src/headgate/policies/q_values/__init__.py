"""Q-learning parts shared by policies: the table of action values, rewards and the agent."""
