"""What came of earlier changes of size, and what that says about the next one."""
