"""Where the cells of a sweep run: in this process (`here`), in processes beside it (`processes`), or on Ray (`ray`)."""
