// A kernel that shows whether kernels are launched as they should be: blocks along x and y and seeds along z, threads,
// shared memory, operands and outputs in order, and a stack over time of which one row is written in place.

#if defined(BUILD_probe)
// Block (x, y) of a seed turns THREADS values around, and adds to them which block, which seed and which step it was.
extern "C" __global__ void __launch_bounds__(THREADS) probe(
    const float* values, const float* scale, TIME_PARAMETERS float* turned, float* row) {
  float* shared = (float*)memory;
  const int seed = blockIdx.z, block = blockIdx.y * BLOCKS + blockIdx.x, all = 2 * BLOCKS * THREADS;
  const int at = block * THREADS + threadIdx.x;
  shared[threadIdx.x] = values[seed * all + at];
  __syncthreads();
  turned[seed * all + at] = shared[THREADS - 1 - threadIdx.x] * scale[seed] + block;
  row[row_of(seed, TIMED_row, NOW) * all + at] = 1000.f * NOW + 100.f * seed + block;
}
#endif
