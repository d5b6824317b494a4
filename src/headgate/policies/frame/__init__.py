"""What every policy is made of: base class and registry, settings, those of its guards, and questions to readings."""
