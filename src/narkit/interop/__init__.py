"""Exchange with other packages."""
