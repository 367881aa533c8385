"""Where the cells of a sweep run: in this process (`here`), or in processes beside it (`processes`)."""
