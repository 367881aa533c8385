"""The loop over the steps of an algorithm, with a bound that is known when it runs, and its gradient.

- `time_loop`: the loop itself.
- `deferred_gradients`, `deferred_products`: gradients of weights leave the loop, and are made in one product after it.
- `traced_program`, `stacks`: programs that are taken apart and run piece by piece, and arrays with a row per step.
"""
