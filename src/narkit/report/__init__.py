"""Tables, figures and documents from records; the published tables as data."""
