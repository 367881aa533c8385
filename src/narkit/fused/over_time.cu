// After a loop over time: products x^T y and sums of what it has stacked, over the rows of all steps that were run.
//
// A stack is a table with the rows of all steps below each other; factors of a product are columns of such tables. The
// rows are cut into parts, a block takes one part of one tile of a result, and `add_parts` adds the parts up in order.
// Rows of steps that were not run are not read, so they may hold anything. Of samples whose last step is over nothing is
// read, either, where that spares a whole chunk of rows.
//
// Macros: INPUTS, the parameters for the stacks; TABLE, what is computed, as many times a `Job` as JOBS says; ALL_PARTS,
// the size of all parts. For products, IS_NARROW where the left factors have few columns, and IS_HALF where factors are
// bfloat16, else they are float32 and rounded to TF32 as the library's products are; LEFT_ALIGNED and RIGHT_ALIGNED where
// all factors of a side can be copied sixteen bytes at a time. For add_parts, OUTPUTS and RESULTS. For all others, SAMPLES.

struct Job {
  const char *left, *right;  // the stacks; sums have only the right one
  int left_start, left_total, m;  // the first column, all columns of the table, the columns that count
  int right_start, right_total, n;
  int rows;  // per step
  int each;  // per sample, where the rows of samples follow each other, else 0
  int parts;
  int block;  // the first one that works on it
  int at;  // where its parts begin
};

// The rows of a part; the first parts are full.
__device__ __forceinline__ int part_length(int rows, int parts) { return ((rows + parts - 1) / parts + 31) / 32 * 32; }

__device__ __forceinline__ Job job_of(const Job (&jobs)[JOBS]) {
  Job job = jobs[0];
#pragma unroll
  for (int i = 1; i < JOBS; ++i)
    if (blockIdx.x >= jobs[i].block) job = jobs[i];
  return job;
}

#ifdef ENDS
// The step and the sample that a row belongs to. It moves on without divisions, which take longer than a chunk's products.
struct Place {
  int each, step, sample, within;
  __device__ __forceinline__ Place(const Job& job, int row) : each(job.each), step(0), sample(0), within(0) {
    if (each == 0) return;
    step = row / job.rows;
    const int first = row - step * job.rows;
    sample = first / each;
    within = first - sample * each;
  }
  __device__ __forceinline__ void advance(int rows) {
    if (each == 0) return;
    for (within += rows; within >= each; within -= each)
      if (++sample == SAMPLES) sample = 0, ++step;
  }
  // Whether so many rows from here on belong to samples whose last step is over.
  __device__ __forceinline__ bool is_over(const int* last_steps, int rows) const {
    if (each == 0) return false;
    int s = sample, t = step;
    for (int left = within + rows; left > 0; left -= each) {
      if (t <= last_steps[blockIdx.z * SAMPLES + s]) return false;
      if (++s == SAMPLES) s = 0, ++t;
    }
    return true;
  }
};
#endif

#if defined(BUILD_products_over_time)
#include "staging.cuh"

#if IS_HALF
typedef bf16 Number;
#else
typedef float Number;
#endif

#define BLOCK_THREADS 256
#define STAGES 4
constexpr int CHUNK = IS_HALF ? 32 : 16;  // rows that are staged at a time
constexpr int M_TILE = IS_NARROW ? 16 : 128, N_TILE = 128;
constexpr int M_WARPS = IS_NARROW ? 1 : 2, N_WARPS = 8 / M_WARPS;
constexpr int MT = M_TILE / 16 / M_WARPS, NT = N_TILE / 8 / N_WARPS;
// Row lengths in shared memory that spread what a warp reads at a time over all banks.
constexpr int LEFT_STRIDE = M_TILE + 8, RIGHT_STRIDE = N_TILE + 8;
constexpr int STAGE = CHUNK * (LEFT_STRIDE + RIGHT_STRIDE);

// Stages CHUNK rows of up to COLUMNS columns, of which `rows` are there; the others are zero. Columns beyond `width` are
// not copied: what they hold stays in columns of the result that are not written.
template <int BYTES, int COLUMNS, int STRIDE>
__device__ __forceinline__ void stage_columns(Number* to, const Number* from, int total, int width, int rows) {
  constexpr int EACH = BYTES / sizeof(Number), ACROSS = COLUMNS / EACH, AT_A_TIME = BLOCK_THREADS / ACROSS;
  const int first = threadIdx.x / ACROSS, column = threadIdx.x % ACROSS * EACH;
  if (column >= width) return;
#pragma unroll
  for (int i = 0; i < CHUNK; i += AT_A_TIME) {
    const int row = first + i;
    if (AT_A_TIME <= CHUNK || row < CHUNK)
      copy_ahead<BYTES>(to + row * STRIDE + column, from + (row < rows ? row * total + column : 0), row < rows);
  }
}

template <bool ALL_ALIGNED, int COLUMNS, int STRIDE>
__device__ __forceinline__ void stage(Number* to, const Number* from, int total, int width, bool aligned, int rows) {
  if (ALL_ALIGNED || aligned)
    stage_columns<16, COLUMNS, STRIDE>(to, from, total, width, rows);
  else
    stage_columns<4, COLUMNS, STRIDE>(to, from, total, width, rows);
}

// sums += left^T right for a staged chunk.
__device__ __forceinline__ void multiply_chunk(float (&sums)[MT][NT][4], const Number* left, const Number* right) {
  const int lane = threadIdx.x % 32;
  left += threadIdx.x / 32 / N_WARPS * (16 * MT);
  right += threadIdx.x / 32 % N_WARPS * (8 * NT);
#pragma unroll
  for (int k = 0; k < CHUNK; k += IS_HALF ? 16 : 8) {
    u32 a[MT][4], b[NT][2];
#if IS_HALF
#pragma unroll
    for (int m = 0; m < MT; ++m)
      load_matrices_transposed(
          a[m], left + (k + lane % 8 + lane / 16 * 8) * LEFT_STRIDE + 16 * m + lane / 8 % 2 * 8);
#pragma unroll
    for (int n = 0; n < NT; n += 2) {
      u32 pair[4];
      load_matrices_transposed(
          pair, right + (k + lane % 8 + lane / 8 % 2 * 8) * RIGHT_STRIDE + 8 * n + lane / 16 * 8);
      b[n][0] = pair[0], b[n][1] = pair[1], b[n + 1][0] = pair[2], b[n + 1][1] = pair[3];
    }
#else
    const Number* from = left + (k + lane % 4) * LEFT_STRIDE + lane / 4;
#pragma unroll
    for (int m = 0; m < MT; ++m)
#pragma unroll
      for (int e = 0; e < 4; ++e) a[m][e] = to_tf32(from[16 * m + e % 2 * 8 + e / 2 * 4 * LEFT_STRIDE]);
    from = right + (k + lane % 4) * RIGHT_STRIDE + lane / 4;
#pragma unroll
    for (int n = 0; n < NT; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e) b[n][e] = to_tf32(from[8 * n + e * 4 * RIGHT_STRIDE]);
#endif
#pragma unroll
    for (int m = 0; m < MT; ++m)
#pragma unroll
      for (int n = 0; n < NT; ++n)
#if IS_HALF
        multiply_accumulate(sums[m][n], a[m], b[n][0], b[n][1]);
#else
        multiply_accumulate_tf32(sums[m][n], a[m], b[n][0], b[n][1]);
#endif
  }
}

__device__ __forceinline__ bool is_aligned(int start, int total) {
  return start * sizeof(Number) % 16 == 0 && total * sizeof(Number) % 16 == 0;
}

// A block makes a part of one tile of one product.
extern "C" __global__ void __launch_bounds__(BLOCK_THREADS, IS_NARROW ? 3 : 2)
    products_over_time(INPUTS TIME_PARAMETERS float* parts) {
  const Job jobs[JOBS] = {TABLE};
  const Job job = job_of(jobs);
  const int m_tiles = (job.m + M_TILE - 1) / M_TILE, n_tiles = (job.n + N_TILE - 1) / N_TILE;
  // Tiles of the same part follow each other, so that what they share is read from memory once.
  const int index = blockIdx.x - job.block, part = index / (m_tiles * n_tiles);
  const int m_first = index / n_tiles % m_tiles * M_TILE, n_first = index % n_tiles * N_TILE;
  const int m = min(job.m - m_first, M_TILE), n = min(job.n - n_first, N_TILE);
  const int rows = NOW * job.rows, length = part_length(rows, job.parts);
  const int start = part * length, end = min(start + length, rows);
  if (start >= end) return;  // nobody reads it

  const long long first_row = (long long)blockIdx.z * CAPACITY * job.rows;
  const Number* left = (const Number*)job.left + first_row * job.left_total + job.left_start + m_first;
  const Number* right = (const Number*)job.right + first_row * job.right_total + job.right_start + n_first;
  const bool left_aligned = is_aligned(job.left_start, job.left_total);
  const bool right_aligned = is_aligned(job.right_start, job.right_total);
  Number* staged = (Number*)memory;

  int row = start, staged_chunks = 0;
  Place place(job, start);
  auto begin_stage = [&]() {
    for (; row < end && place.is_over(last_steps, CHUNK); row += CHUNK) place.advance(CHUNK);
    if (row < end) {
      Number* to = staged + staged_chunks++ % STAGES * STAGE;
      stage<LEFT_ALIGNED, M_TILE, LEFT_STRIDE>(
          to, left + (long long)row * job.left_total, job.left_total, m, left_aligned, end - row);
      stage<RIGHT_ALIGNED, N_TILE, RIGHT_STRIDE>(
          to + CHUNK * LEFT_STRIDE, right + (long long)row * job.right_total, job.right_total, n, right_aligned, end - row);
      row += CHUNK;
      place.advance(CHUNK);
    }
    end_of_stage();
  };

  float sums[MT][NT][4] = {};
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int own_m = warp / N_WARPS * (16 * MT), own_n = warp % N_WARPS * (8 * NT);
  const bool works = own_m < m && own_n < n;
#pragma unroll 1
  for (int i = 0; i < STAGES - 1; ++i) begin_stage();
  for (int i = 0; i < staged_chunks; ++i) {
    wait_for_stage<STAGES - 2>();
    __syncthreads();  // all have copied this chunk, and are done with the one before, whose place is filled now
    begin_stage();
    const Number* chunk = staged + i % STAGES * STAGE;
    if (works) multiply_chunk(sums, chunk, chunk + CHUNK * LEFT_STRIDE);
  }

  parts += (long long)blockIdx.z * ALL_PARTS + job.at + (long long)part * job.m * job.n;
#pragma unroll
  for (int i = 0; i < MT; ++i)
#pragma unroll
    for (int j = 0; j < NT; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = own_m + 16 * i + lane / 4 + e / 2 * 8, column = own_n + 8 * j + lane % 4 * 2 + e % 2;
        if (row < m && column < n) parts[(m_first + row) * job.n + n_first + column] = sums[i][j][e];
      }
}
#endif

#if defined(BUILD_sums_over_time)
#define AHEAD 8  // rows that a warp reads at a time

// A block sums a part of the rows of 128 columns. There is a multiple of four columns.
extern "C" __global__ void __launch_bounds__(256) sums_over_time(INPUTS TIME_PARAMETERS float* parts) {
  const Job jobs[JOBS] = {TABLE};
  const Job job = job_of(jobs);
  const int tiles = (job.n + 127) / 128, index = blockIdx.x - job.block, part = index / tiles;
  const int column = index % tiles * 128 + threadIdx.x % 32 * 4;
  const int rows = NOW * job.rows, length = part_length(rows, job.parts);
  const int start = part * length, end = min(start + length, rows);
  if (start >= end) return;

  const float4* values = (const float4*)(job.right + ((long long)blockIdx.z * CAPACITY * job.rows * job.n + column) * 4);
  const float4 zero = make_float4(0.f, 0.f, 0.f, 0.f);
  float4 sum = zero;
  if (column < job.n) {
    const int stride = job.n / 4;
    int row = start + threadIdx.x / 32;
    Place place(job, row);
    const auto next_value = [&]() {
      const float4 value = place.is_over(last_steps, 1) ? zero : values[(long long)row * stride];
      row += 8;
      place.advance(8);
      return value;
    };
    while (row + 8 * (AHEAD - 1) < end) {
      float4 next[AHEAD];  // all on their way before the first is needed
#pragma unroll
      for (int i = 0; i < AHEAD; ++i) next[i] = next_value();
#pragma unroll
      for (int i = 0; i < AHEAD; ++i) sum = sum + next[i];
    }
    while (row < end) sum = sum + next_value();
  }
  float4* of_warps = (float4*)memory;
  of_warps[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x < 32 && column < job.n) {
#pragma unroll
    for (int warp = 1; warp < 8; ++warp) sum = sum + of_warps[32 * warp + threadIdx.x];
    parts += (long long)blockIdx.z * ALL_PARTS + job.at + (long long)part * job.n + column;
    parts[0] = sum.x, parts[1] = sum.y, parts[2] = sum.z, parts[3] = sum.w;
  }
}
#endif

#if defined(BUILD_add_parts)
// A thread adds up the parts of one element. The left "stack" of a job are its parts, of which there are `left_total`
// numbers per seed.
extern "C" __global__ void __launch_bounds__(256) add_parts(INPUTS TIME_PARAMETERS OUTPUTS) {
  const Job jobs[JOBS] = {TABLE};
  float* const results[JOBS] = {RESULTS};
  const Job job = job_of(jobs);
  float* result = results[0];
#pragma unroll
  for (int i = 1; i < JOBS; ++i)
    if (blockIdx.x >= jobs[i].block) result = results[i];
  const int size = job.m * job.n, element = (blockIdx.x - job.block) * 256 + threadIdx.x;
  const int rows = NOW * job.rows, length = part_length(rows, job.parts);
  const int parts = (rows + length - 1) / max(length, 1);
  if (element >= size) return;
  const float* from = (const float*)job.left + (long long)blockIdx.z * job.left_total + job.at + element;
  float sum = 0.0f;
#pragma unroll 8
  for (int part = 0; part < parts; ++part) sum += from[(long long)part * size];
  result[(long long)blockIdx.z * size + element] = sum;
}
#endif
