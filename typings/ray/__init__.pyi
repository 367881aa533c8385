# Stands for a package that need not be installed: without it a file of narkit's with the same name would be found.
from typing import Any

def __getattr__(name: str) -> Any: ...
