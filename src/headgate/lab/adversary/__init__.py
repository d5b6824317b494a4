"""A seeded search for the load and the job on which a policy breaks its objective or pays most."""
