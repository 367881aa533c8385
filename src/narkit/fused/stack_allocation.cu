// Allocates stacks over time. What a loop will write is left as it is; only the rows that it does not reach are made
// zero.
//
// Macros: BLOCKS per array and seed; ARRAYS, their number; OUTPUTS, their parameters; POINTERS, the names of these;
// ROW_BYTES, the sizes of rows, 0 for arrays of which nothing has to be zero.

template <typename Unit>
__device__ __forceinline__ void clear(Unit* first, Unit* end, Unit zero) {
  for (Unit* at = first + blockIdx.x * THREADS + threadIdx.x; at < end; at += BLOCKS * THREADS) *at = zero;
}

#if defined(BUILD_clear_unwritten_rows)
// A block clears a part of one array of one seed.
extern "C" __global__ void __launch_bounds__(THREADS) clear_unwritten_rows(TIME_PARAMETERS OUTPUTS) {
  char* const arrays[ARRAYS] = {POINTERS};
  const long long sizes[ARRAYS] = {ROW_BYTES};
  char* array = arrays[0];
  long long size = sizes[0];
#pragma unroll
  for (int i = 1; i < ARRAYS; ++i)
    if (blockIdx.y == i) array = arrays[i], size = sizes[i];
  char* end = array + (blockIdx.z + 1) * CAPACITY * size;
  char* first = end - (CAPACITY - NOW) * size;
  if (size % 16 == 0)
    clear((float4*)first, (float4*)end, make_float4(0.f, 0.f, 0.f, 0.f));
  else
    clear(first, end, (char)0);
}
#endif
