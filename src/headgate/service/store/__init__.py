"""What a service stores in addition to its journal: tokens, the audit log, and the changes in force."""

from headgate.service.store.store import Store, open_store

__all__ = ["Store", "open_store"]
