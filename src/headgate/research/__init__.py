"""The experiments of the source documents, the league and the promises, registered as those of a third party are."""
