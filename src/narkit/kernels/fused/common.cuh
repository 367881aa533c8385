// Shared by all kernels: a warp's view of features, and products of row tiles with 128 x 128 weights on the matrix units.
//
// A lane holds four neighbouring features of a vector of H = 128. Tiles of rows live in shared memory as bfloat16 with
// a row length that spreads eight rows over all banks. Weights come from global memory in the order in which the matrix
// units want them (see `fragments` in weights.py), so a lane reads them directly, eight bytes at a time.

#define H 128
#define WARPS 4
#define THREADS (32 * WARPS)
#define TILE_STRIDE 136  // bfloat16 elements per row of a tile in shared memory
#define WIDE_STRIDE 132  // float32 elements per row

// Some arrays may be stacks over time of CAPACITY rows per seed, of which kernels read or write the row `now`. Macros
// TIMED_<array> say which.
#ifdef CAPACITY
#define NOW (*time)
#else
#define CAPACITY 1
#define TIME_PARAMETERS
#define NOW 0
#endif

__device__ __forceinline__ int row_of(int seed, bool timed, int now) { return timed ? seed * CAPACITY + now : seed; }

typedef unsigned int u32;
typedef unsigned short bf16;

#ifndef EMULATED
extern __shared__ uint4 memory[];

__device__ __forceinline__ u32 pack(float low, float high) {
  u32 packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

__device__ __forceinline__ void multiply_accumulate(float c[4], const u32 a[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
#endif

__device__ __forceinline__ float unpack(bf16 value) { return __uint_as_float(((u32)value) << 16); }

// ---------------------------------------------------------------------------------------------------- feature vectors

__device__ __forceinline__ float4 operator+(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

__device__ __forceinline__ float4 axpy(float s, float4 a, float4 b) {
  return make_float4(fmaf(s, a.x, b.x), fmaf(s, a.y, b.y), fmaf(s, a.z, b.z), fmaf(s, a.w, b.w));
}

__device__ __forceinline__ float4 product(float4 a, float4 b) {
  return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}

__device__ __forceinline__ float dot(float4 a, float4 b, float start) {
  return fmaf(a.x, b.x, fmaf(a.y, b.y, fmaf(a.z, b.z, fmaf(a.w, b.w, start))));
}

__device__ __forceinline__ float dot_absolute(float4 a, float4 t, float start) {
  return fmaf(a.x, fabsf(t.x), fmaf(a.y, fabsf(t.y), fmaf(a.z, fabsf(t.z), fmaf(a.w, fabsf(t.w), start))));
}

// This lane's part of a vector.
__device__ __forceinline__ float4 features(const float* vector) { return ((const float4*)vector)[threadIdx.x % 32]; }

// Sums over the lanes l, l + COUNT, l + 2 COUNT, ...
template <int COUNT>
__device__ __forceinline__ float sum_over_groups(float value) {
#pragma unroll
  for (int step = COUNT; step < 32; step *= 2) value += __shfl_xor_sync(0xffffffff, value, step);
  return value;
}

// Sums COUNT values over the lanes of a warp; afterwards lane l has the sum of value l % COUNT.
template <int COUNT>
__device__ __forceinline__ float sum_over_lanes(float (&values)[COUNT]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = COUNT / 2; half >= 1; half /= 2) {
    const bool upper = lane & half;
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const float give = upper ? values[i] : values[i + half];
      const float keep = upper ? values[i + half] : values[i];
      values[i] = keep + __shfl_xor_sync(0xffffffff, give, half);
    }
  }
  return sum_over_groups<COUNT>(values[0]);
}

// ------------------------------------------------------------------------------------------------------------ products

// The elements of a 16-row tile that a lane holds after a product: rows `row`, `row + 8`, columns `column`, `column + 1`.
struct Place {
  int row, column;
  __device__ Place(int m_tile, int n_tile) {
    const int lane = threadIdx.x % 32;
    row = 16 * m_tile + lane / 4;
    column = 8 * n_tile + 2 * (lane % 4);
  }
};

// acc[m][n] += tile (16 MT rows, H) times the columns of `weight` that belong to this warp: n tiles warp * NT ... + NT.
template <int MT, int NT>
__device__ __forceinline__ void multiply(float (&acc)[MT][NT][4], const bf16* tile, const u32* weight) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int k = 0; k < H / 16; ++k) {
    u32 b[NT][2];
#pragma unroll
    for (int n = 0; n < NT; ++n) {
      const uint2 pair = ((const uint2*)weight)[(k * (H / 8) + warp * NT + n) * 32 + lane];
      b[n][0] = pair.x;
      b[n][1] = pair.y;
    }
#pragma unroll
    for (int m = 0; m < MT; ++m) {
      const u32* rows = (const u32*)(tile + (16 * m + lane / 4) * TILE_STRIDE + 16 * k + 2 * (lane % 4));
      const u32 a[4] = {rows[0], rows[8 * TILE_STRIDE / 2], rows[4], rows[8 * TILE_STRIDE / 2 + 4]};
#pragma unroll
      for (int n = 0; n < NT; ++n) multiply_accumulate(acc[m][n], a, b[n][0], b[n][1]);
    }
  }
}

template <int MT, int NT>
__device__ __forceinline__ void clear(float (&acc)[MT][NT][4]) {
#pragma unroll
  for (int m = 0; m < MT; ++m)
#pragma unroll
    for (int n = 0; n < NT; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) acc[m][n][e] = 0.0f;
}

// Calls `f(row, column, &two values)` for all neighbouring pairs of elements that this lane holds.
template <int MT, int NT, typename F>
__device__ __forceinline__ void for_pairs(float (&acc)[MT][NT][4], F f) {
  const int warp = threadIdx.x / 32;
#pragma unroll
  for (int m = 0; m < MT; ++m)
#pragma unroll
    for (int n = 0; n < NT; ++n) {
      const Place place(m, warp * NT + n);
      f(place.row, place.column, acc[m][n]);
      f(place.row + 8, place.column, acc[m][n] + 2);
    }
}

__device__ __forceinline__ void store_pair(bf16* tile, int row, int column, float first, float second) {
  *(u32*)(tile + row * TILE_STRIDE + column) = pack(first, second);
}

__device__ __forceinline__ float2 load_pair(const bf16* tile, int row, int column) {
  const u32 packed = *(const u32*)(tile + row * TILE_STRIDE + column);
  return make_float2(__uint_as_float(packed << 16), __uint_as_float(packed & 0xffff0000u));
}

// Copies a tile from shared to global memory, where rows follow each other without gaps.
__device__ __forceinline__ void copy_out(bf16* out, const bf16* tile, int rows) {
  for (int i = threadIdx.x; i < rows * (H / 8); i += THREADS)
    ((uint4*)out)[i] = *(const uint4*)(tile + (i / (H / 8)) * TILE_STRIDE + (i % (H / 8)) * 8);
}
