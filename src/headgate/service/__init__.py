"""What answers agents over HTTP."""
