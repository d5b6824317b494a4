"""Running an application: where its records come from, where its results go, and what became of each record."""
