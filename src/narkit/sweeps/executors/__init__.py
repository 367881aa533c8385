"""Executors run the cells of sweeps: in this process (`here`), in processes beside it (`processes`), on Ray (`ray`)."""
