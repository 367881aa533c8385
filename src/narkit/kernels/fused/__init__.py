"""Kernels that do in one launch what the compiler would spread over dozens. Each has its plain formula beside it."""
