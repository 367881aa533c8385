"""From records to tables, figures and documents; the published tables as data."""
