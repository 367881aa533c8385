// Linears of node features: few scalars and one or two vectors of H features per node in, WIDTH numbers out; and back.
//
// A block makes a tile of 64 rows (nodes of all samples, one after the other) and 64 columns. Rows of the factor and of
// the weights are staged ahead in shared memory, CHUNK inputs at a time; products are rounded to TF32, as the library's
// are. Weights come in the order of the matrix units (`tf32_fragments` in weights.py), rounded already. What scalars
// add is computed in float32: they hold numbers that are compared with each other.
//
// Macros: N, SAMPLES, WIDTH; DENSE, the number of vectors, and DENSE_COLUMNS, the last ones of the WIDTH that they add to;
// SCALARS per row; FORWARD_STAGES and BACKWARD_STAGES, how many chunks have a place in shared memory. blockIdx.z is the seed.

#include "staging.cuh"

#define TILE 64
#define NODES (SAMPLES * N)
#define SCALARS_FIRST (WIDTH - DENSE_COLUMNS)  // the columns to which scalars alone add

constexpr int CHUNK = 32, CHUNKS_OF_VECTOR = H / CHUNK;  // inputs that are staged at a time
constexpr int ROW_STRIDE = CHUNK + 4;  // spreads the rows of a matrix over all banks
constexpr int STAGE = TILE * ROW_STRIDE + CHUNK * TILE;

// Two rows of two warps, each with two row tiles of 16 and four column tiles of 8.
constexpr int MT = 2, NT = 4;
typedef float Sums[MT][NT][4];

__device__ __forceinline__ int own_row(int m, int e) {
  return 32 * (threadIdx.x / 64) + 16 * m + threadIdx.x % 32 / 4 + e / 2 * 8;
}
__device__ __forceinline__ int own_column(int n) { return 32 * (threadIdx.x / 32 % 2) + 8 * n + threadIdx.x % 4 * 2; }

// A thread copies the same four of CHUNK columns of these rows of the tile, always.
#define COPIES (TILE * CHUNK / 4 / THREADS)
struct Copies {
  int from[COPIES], to, column;
  __device__ __forceinline__ Copies(int first_row, int total) {
    const int row = threadIdx.x / (CHUNK / 4);
    column = threadIdx.x % (CHUNK / 4) * 4;
    to = row * ROW_STRIDE + column;
#pragma unroll
    for (int i = 0; i < COPIES; ++i)  // rows beyond the last are read as the last, and not written
      from[i] = min(first_row + row + i * (TILE / COPIES), NODES - 1) * total + column;
  }
};

// Stages CHUNK inputs of the tile's rows, from `first` to at most `end`, and their weights, `slices` of eight inputs each.
__device__ __forceinline__ void stage(
    float* to, const Copies& copies, const float* table, int first, int end, const u32* weights, int slices) {
#pragma unroll
  for (int i = 0; i < COPIES; ++i)
    copy_ahead<16>(to + copies.to + i * (TILE / COPIES) * ROW_STRIDE, table + copies.from[i] + first,
                   first + copies.column < end);
  u32* beside = (u32*)to + TILE * ROW_STRIDE + 4 * threadIdx.x;
#pragma unroll
  for (int i = 0; i < CHUNK / 8; ++i)
    copy_ahead<16>(beside + i * (8 * TILE), weights + i * (8 * TILE) + 4 * threadIdx.x, i < slices);
}

// sums += rows times weights, for a staged chunk.
__device__ __forceinline__ void multiply_chunk(Sums& sums, const float* staged) {
  const int lane = threadIdx.x % 32;
  const float* rows = staged + (32 * (threadIdx.x / 64) + lane % 16) * ROW_STRIDE + lane / 16 * 4;
  const uint4* weights = (const uint4*)(staged + TILE * ROW_STRIDE) + threadIdx.x / 32 % 2 * (2 * 32) + lane;
#pragma unroll
  for (int slice = 0; slice < CHUNK / 8; ++slice) {
    u32 a[MT][4];
#pragma unroll
    for (int m = 0; m < MT; ++m) {
      load_matrices(a[m], (const bf16*)(rows + 16 * m * ROW_STRIDE + 8 * slice));  // four floats are eight bfloat16 numbers
#pragma unroll
      for (int e = 0; e < 4; ++e) a[m][e] = to_tf32(__uint_as_float(a[m][e]));
    }
#pragma unroll
    for (int n = 0; n < NT; n += 2) {
      const uint4 b = weights[(4 * slice + n / 2) * 32];
#pragma unroll
      for (int m = 0; m < MT; ++m) {
        multiply_accumulate_tf32(sums[m][n], a[m], b.x, b.y);
        multiply_accumulate_tf32(sums[m][n + 1], a[m], b.z, b.w);
      }
    }
  }
}

// Whether all samples with nodes in this tile have ended.
__device__ __forceinline__ bool all_have_ended(int first_row, const int* last_steps, int now) {
  const int end = min(first_row + TILE, NODES);
  for (int sample = first_row / N; sample * N < end; ++sample)
    if (now <= last_steps[blockIdx.z * SAMPLES + sample]) return false;
  return true;
}
#ifdef ENDS
#define TILE_HAS_ENDED(first_row) all_have_ended(first_row, last_steps, NOW)
#else
#define TILE_HAS_ENDED(first_row) false
#endif

#if defined(BUILD_node_product_forward)
#define STAGES FORWARD_STAGES
#define COLUMN_TILES ((WIDTH + TILE - 1) / TILE)

extern "C" __global__ void __launch_bounds__(THREADS, 3) node_product_forward(
    const float* scalars, const float* directions, const float* offset, const u32* weights, const float* first
#if DENSE == 2
    , const float* second
#endif
    , TIME_PARAMETERS float* result) {
  const int seed = blockIdx.z, first_row = blockIdx.x / COLUMN_TILES * TILE;
  const int tile = blockIdx.x % COLUMN_TILES, first_column = tile * TILE;
  scalars += (long long)row_of(seed, TIMED_scalars, NOW) * NODES * SCALARS;
  directions += seed * SCALARS * WIDTH;
  offset += seed * WIDTH;
  weights += (seed * COLUMN_TILES + tile) * (DENSE * H * TILE);
  first += (long long)row_of(seed, TIMED_first, NOW) * NODES * H;
#if DENSE == 2
  second += (long long)row_of(seed, TIMED_second, NOW) * NODES * H;
#else
  const float* second = first;
#endif
  result += (long long)row_of(seed, TIMED_result, NOW) * NODES * WIDTH;
  Sums sums;
#pragma unroll
  for (int i = 0; i < MT * NT * 4; ++i) sums[i / 4 / NT][i / 4 % NT][i % 4] = 0.0f;

  if (!TILE_HAS_ENDED(first_row)) {
    float* staged = (float*)memory;
    const Copies copies(first_row, H);
    const int chunks = first_column + TILE > SCALARS_FIRST ? DENSE * CHUNKS_OF_VECTOR : 0;
    const auto begin_stage = [&](int i) {
      if (i < chunks)
        stage(staged + i % STAGES * STAGE, copies, i < CHUNKS_OF_VECTOR ? first : second,
              i % CHUNKS_OF_VECTOR * CHUNK, H, weights + i * (CHUNK * TILE), CHUNK / 8);
      end_of_stage();
    };
#pragma unroll 1
    for (int i = 0; i < STAGES - 1; ++i) begin_stage(i);
    // While these are on their way, what the scalars add.
    float* own = staged + STAGES * STAGE;
    float* ways = own + TILE * SCALARS;
    for (int i = threadIdx.x; i < TILE * SCALARS; i += THREADS) {
      const int row = min(first_row + i / SCALARS, NODES - 1);
      own[i] = scalars[(long long)row * SCALARS + i % SCALARS];
    }
    for (int i = threadIdx.x; i < TILE * (SCALARS + 1); i += THREADS) {
      const int p = i / TILE, column = min(first_column + i % TILE, WIDTH - 1);
      ways[i] = p < SCALARS ? directions[p * WIDTH + column] : offset[column];
    }
    __syncthreads();
#pragma unroll 2
    for (int p = 0; p <= SCALARS; ++p)
#pragma unroll
      for (int m = 0; m < MT; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const float scalar = p < SCALARS ? own[own_row(m, 2 * half) * SCALARS + p] : 1.0f;
#pragma unroll
          for (int n = 0; n < NT; ++n) {
            const float2 way = *(const float2*)(ways + p * TILE + own_column(n));
            sums[m][n][2 * half] = fmaf(scalar, way.x, sums[m][n][2 * half]);
            sums[m][n][2 * half + 1] = fmaf(scalar, way.y, sums[m][n][2 * half + 1]);
          }
        }
#pragma unroll 1
    for (int i = 0; i < chunks; ++i) {
      wait_for_stage<STAGES - 2>();
      __syncthreads();  // all have copied this chunk, and are done with the one before, whose place is filled now
      begin_stage(i + STAGES - 1);
      multiply_chunk(sums, staged + i % STAGES * STAGE);
    }
  }
#pragma unroll
  for (int m = 0; m < MT; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + own_row(m, 2 * half);
#pragma unroll
      for (int n = 0; n < NT; ++n) {
        const int column = first_column + own_column(n);
        if (row < NODES && column < WIDTH)
          *(float2*)(result + (long long)row * WIDTH + column) =
              make_float2(sums[m][n][2 * half], sums[m][n][2 * half + 1]);
      }
    }
}
#undef STAGES
#undef COLUMN_TILES
#endif

#if defined(BUILD_node_product_backward)
// The columns are those of the vectors, then the scalars', filled up to a whole tile.
#define STAGES BACKWARD_STAGES  // more: few blocks, each with many chunks
#define ALL_COLUMNS (DENSE * H + SCALARS)
#define COLUMN_TILES ((ALL_COLUMNS + TILE - 1) / TILE)

extern "C" __global__ void __launch_bounds__(THREADS, 3) node_product_backward(
    const float* d_result, const u32* weights, TIME_PARAMETERS float* d_scalars, float* d_first
#if DENSE == 2
    , float* d_second
#endif
) {
  const int seed = blockIdx.z, first_row = blockIdx.x / COLUMN_TILES * TILE;
  const int tile = blockIdx.x % COLUMN_TILES, first_column = tile * TILE;
  d_result += (long long)row_of(seed, TIMED_result, NOW) * NODES * WIDTH;
  weights += (seed * COLUMN_TILES + tile) * (WIDTH * TILE);
  Sums sums;
#pragma unroll
  for (int i = 0; i < MT * NT * 4; ++i) sums[i / 4 / NT][i / 4 % NT][i % 4] = 0.0f;

  if (!TILE_HAS_ENDED(first_row)) {
    float* staged = (float*)memory;
    // Vectors add to the last columns alone.
    const int start = first_column < DENSE * H ? SCALARS_FIRST / CHUNK : 0;
    const int chunks = (WIDTH + CHUNK - 1) / CHUNK;
    const Copies copies(first_row, WIDTH);
    const auto begin_stage = [&](int i) {
      if (i < chunks)
        stage(staged + i % STAGES * STAGE, copies, d_result, i * CHUNK, WIDTH, weights + i * (CHUNK * TILE),
              WIDTH / 8 - i * (CHUNK / 8));
      end_of_stage();
    };
#pragma unroll 1
    for (int i = start; i < start + STAGES - 1; ++i) begin_stage(i);
#pragma unroll 1
    for (int i = start; i < chunks; ++i) {
      wait_for_stage<STAGES - 2>();
      __syncthreads();
      begin_stage(i + STAGES - 1);
      multiply_chunk(sums, staged + i % STAGES * STAGE);
    }
  }
  const long long first_node = (long long)seed * NODES + first_row;
  float* vectors[DENSE] = {
    d_first,
#if DENSE == 2
    d_second,
#endif
  };
#pragma unroll
  for (int m = 0; m < MT; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = own_row(m, 2 * half);
      if (first_row + row >= NODES) continue;
#pragma unroll
      for (int n = 0; n < NT; ++n) {
        const int column = first_column + own_column(n);
        const float *sum = sums[m][n] + 2 * half;
        if (first_column < DENSE * H) {
          float* out = DENSE == 2 && first_column >= H ? vectors[DENSE - 1] : vectors[0];
          *(float2*)(out + (first_node + row) * H + column % H) = make_float2(sum[0], sum[1]);
        } else {
          const int p = column - DENSE * H;
          if (p < SCALARS) d_scalars[(first_node + row) * SCALARS + p] = sum[0];
          if (p + 1 < SCALARS) d_scalars[(first_node + row) * SCALARS + p + 1] = sum[1];
        }
      }
    }
}
#endif
