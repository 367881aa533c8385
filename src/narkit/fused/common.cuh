// Shared by all kernels: a warp's view of features, and products of row tiles with 128 x 128 weights on the matrix units.
//
// A lane holds four neighbouring features of a vector of H = 128. Tiles of rows live in shared memory as bfloat16 with
// a row length that spreads eight rows over all banks. Weights come from global memory in the order in which the matrix
// units want them (see `fragments` in weights.py), so a lane reads them directly, sixteen bytes at a time.

#define H 128
#define WARPS 4  // of a block, where a kernel does not say otherwise
#define THREADS (32 * WARPS)
#define TILE_STRIDE 136  // bfloat16 elements per row of a tile in shared memory

// Some arrays may be stacks over time of CAPACITY rows per seed, of which kernels read or write the row `now`. Macros
// TIMED_<array>, 0 or 1 for each that a file mentions, say which.
#ifdef CAPACITY
#define NOW (*time)
#else
#define CAPACITY 1
#define TIME_PARAMETERS
#define NOW 0
#endif

// Whether a sample, numbered over all seeds, has no part in this step: its algorithm has ended and it waits for the
// others. Nobody reads what becomes of it, and no gradient comes back. A block writes zeros for it and is done.
#ifdef ENDS
#define HAS_ENDED(sample) (*time > last_steps[sample])
#else
#define HAS_ENDED(sample) false
#endif

__device__ __forceinline__ int row_of(int seed, bool timed, int now) { return timed ? seed * CAPACITY + now : seed; }

#if defined(N) && defined(SAMPLES)
// The sample of a block, of which each has so many.
struct Sample {
  int seed, sample;
  long long index;  // over all seeds
  __device__ Sample(int blocks) {
    seed = blockIdx.z;
    sample = blockIdx.x / blocks;
    index = (long long)seed * SAMPLES + sample;
  }
  // The index in an array that may be a stack over time.
  __device__ long long at(bool timed, int now) const { return (long long)row_of(seed, timed, now) * SAMPLES + sample; }
};
#endif

#ifdef N
// Nodes beyond the last are read as the last.
__device__ __forceinline__ int last(int node) { return node < N ? node : N - 1; }
#endif

typedef unsigned int u32;
typedef unsigned short bf16;

#ifndef EMULATED
extern __shared__ uint4 memory[];

__device__ __forceinline__ u32 pack(float low, float high) {
  u32 packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

// The same of what is above zero, with zeros for the rest.
__device__ __forceinline__ u32 pack_rectified(float low, float high) {
  u32 packed;
  asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

__device__ __forceinline__ void multiply_accumulate(float c[4], const u32 a[4], u32 b0, u32 b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// x y + z, not below 0 and not above 1.
__device__ __forceinline__ float saturated_fma(float x, float y, float z) {
  float result;
  asm("fma.rn.sat.f32 %0, %1, %2, %3;" : "=f"(result) : "f"(x), "f"(y), "f"(z));
  return result;
}

// Makes the compiler hold bits as one number. It would rather remember every comparison that they came from.
__device__ __forceinline__ void hold(u32& bits) { asm volatile("" : "+r"(bits)); }

// Four 8 x 8 matrices from shared memory: lane l names row l % 8 of matrix l / 8.
__device__ __forceinline__ void load_matrices(u32 (&a)[4], const bf16* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
               : "r"((u32)__cvta_generic_to_shared(row)));
}
#endif

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

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + __expf(-x)); }

// How much of the gradient of max(one, other) the one gets: half of it goes to each of two that are equal.
__device__ __forceinline__ float share(float one, float other) { return saturated_fma(one - other, 1e30f, 0.5f); }

// This lane's part of a vector.
__device__ __forceinline__ float4 features(const float* vector) { return ((const float4*)vector)[threadIdx.x % 32]; }

// The same for all lanes, which the compiler would not know otherwise.
__device__ __forceinline__ int warp_number() { return (int)__shfl_sync(0xffffffff, (u32)(threadIdx.x / 32), 0); }

// Sums over the lanes l, l + COUNT, l + 2 COUNT, ...
template <int COUNT>
__device__ __forceinline__ float sum_over_groups(float value) {
#pragma unroll
  for (int step = COUNT; step < 32; step *= 2) value += __shfl_xor_sync(0xffffffff, value, step);
  return value;
}

__device__ __forceinline__ float exchange_lanes(float value, int step) {
  return __shfl_xor_sync(0xffffffff, value, step);
}

// Sums over four neighbouring lanes, which have columns of the same row where the matrix units have written.
__device__ __forceinline__ float sum_over_quad(float value) {
  value += exchange_lanes(value, 1);
  return value + exchange_lanes(value, 2);
}

__device__ __forceinline__ float highest_of_lanes(float value) {
#pragma unroll
  for (int step = 1; step < 32; step *= 2) value = fmaxf(value, exchange_lanes(value, step));
  return value;
}

// Combines COUNT values over the lanes whose numbers differ by multiples of FROM, below TO; afterwards lane l has the
// result for value l / FROM % COUNT. There are at least COUNT such lanes.
template <int COUNT, int FROM, int TO, typename T, typename F>
__device__ __forceinline__ T combine_over_lanes(T (&values)[COUNT], F f) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = COUNT / 2; half >= 1; half /= 2) {
    const bool upper = lane & (half * FROM);
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const T give = upper ? values[i] : values[i + half], keep = upper ? values[i + half] : values[i];
      values[i] = f(keep, exchange_lanes(give, half * FROM));
    }
  }
#pragma unroll
  for (int step = COUNT * FROM; step < TO; step *= 2) values[0] = f(values[0], exchange_lanes(values[0], step));
  return values[0];
}

template <int COUNT, int FROM, int TO>
__device__ __forceinline__ float sum_over_some_lanes(float (&values)[COUNT]) {
  return combine_over_lanes<COUNT, FROM, TO>(values, [](float a, float b) { return a + b; });
}

// Sums COUNT values over the lanes of a warp; afterwards lane l has the sum of value l % COUNT.
template <int COUNT>
__device__ __forceinline__ float sum_over_lanes(float (&values)[COUNT]) {
  return sum_over_some_lanes<COUNT, 1, 32>(values);
}

template <typename T>
__device__ __forceinline__ void write_zeros(T* out, int count, int num_threads) {
#pragma unroll 1
  for (int i = threadIdx.x; i < count; i += num_threads) out[i] = T();
}

// ------------------------------------------------------------------------------------------------------------ products

// How the warps of a block share the product of ROWS_ rows with a weight: each has all MT row tiles of 16 and NT column
// tiles of 8. So a block reads every weight once, and sums over rows are complete in a warp.
template <int ROWS_, int WARPS_, int AHEAD_ = 0>
struct Tiling {
  static constexpr int N_WARPS = WARPS_;
  static constexpr int MT = ROWS_ / 16, NT = H / 8 / N_WARPS;
  static constexpr int NUM_THREADS = 32 * WARPS_;
  // Steps of 16 inputs for which weights are read in advance: as a kernel says, else the fewer sums a lane has, the more.
  static constexpr int AHEAD = AHEAD_ ? AHEAD_ : MT * NT <= 2 ? H / 16 : MT * NT <= 4 ? 2 : 1;
  typedef float Sums[MT][NT][4];

  static __device__ __forceinline__ int n_warp() { return threadIdx.x / 32; }
  // The first of the two rows and of the two columns that a lane holds of a tile; the others are 8 and 1 further.
  static __device__ __forceinline__ int row(int m) { return 16 * m + threadIdx.x % 32 / 4; }
  static __device__ __forceinline__ int column(int n) { return 8 * (n_warp() * NT + n) + 2 * (threadIdx.x % 4); }

  // Calls `f(row, column, two values, number)` for all neighbouring pairs of elements that this lane holds.
  template <typename F>
  static __device__ __forceinline__ void for_pairs(Sums& sums, F f) {
#pragma unroll
    for (int m = 0; m < MT; ++m)
#pragma unroll
      for (int n = 0; n < NT; ++n)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          f(row(m) + 8 * half, column(n), sums[m][n] + 2 * half, (m * NT + n) * 2 + half);
  }

  static __device__ __forceinline__ void clear(Sums& sums) {
    for_pairs(sums, [](int, int, float* v, int) { v[0] = v[1] = 0.0f; });
  }

  // The part of a weight that this warp multiplies with, read AHEAD steps before it is needed.
  struct Weights {
    const uint4* source;
    uint4 slices[AHEAD][NT / 2];
    __device__ __forceinline__ void read(int k) {
#pragma unroll
      for (int n = 0; n < NT / 2; ++n) slices[k % AHEAD][n] = source[(k * (H / 16) + n) * 32];
    }
    __device__ __forceinline__ Weights() {}
    __device__ __forceinline__ Weights(const u32* weight) { start(weight); }
    __device__ __forceinline__ void start(const u32* weight) {
      source = (const uint4*)weight + n_warp() * (NT / 2) * 32 + threadIdx.x % 32;
#pragma unroll
      for (int k = 0; k < AHEAD; ++k) read(k);
    }
  };

  // sums += tile times weights.
  static __device__ __forceinline__ void multiply(Sums& sums, const bf16* tile, Weights& weights) {
    const int lane = threadIdx.x % 32;
    tile += lane % 16 * TILE_STRIDE + 8 * (lane / 16);
#pragma unroll
    for (int k = 0; k < H / 16; ++k) {
      uint4 b[NT / 2];
#pragma unroll
      for (int n = 0; n < NT / 2; ++n) b[n] = weights.slices[k % AHEAD][n];
      if (k + AHEAD < H / 16) weights.read(k + AHEAD);
#pragma unroll
      for (int m = 0; m < MT; ++m) {
        u32 a[4];
        load_matrices(a, tile + 16 * m * TILE_STRIDE + 16 * k);
#pragma unroll
        for (int n = 0; n < NT / 2; ++n) {
          multiply_accumulate(sums[m][2 * n], a, b[n].x, b[n].y);
          multiply_accumulate(sums[m][2 * n + 1], a, b[n].z, b[n].w);
        }
      }
    }
  }

  // Copies a tile from shared to global memory, where rows follow each other without gaps.
  static __device__ __forceinline__ void copy_out(bf16* out, const bf16* tile) {
    constexpr int WORDS = H / 8, ROWS_AT_ONCE = NUM_THREADS / WORDS;  // words of sixteen bytes
    static_assert(ROWS_ % ROWS_AT_ONCE == 0, "threads that have fewer words than others");
    const uint4* from = (const uint4*)(tile + threadIdx.x / WORDS * TILE_STRIDE) + threadIdx.x % WORDS;
#pragma unroll 4
    for (int row = 0; row < ROWS_; row += ROWS_AT_ONCE)
      ((uint4*)out)[row * WORDS + threadIdx.x] = from[row * (TILE_STRIDE / 8)];
  }
};

__device__ __forceinline__ void store_pair(bf16* tile, int row, int column, float first, float second) {
  *(u32*)(tile + row * TILE_STRIDE + column) = pack(first, second);
}

// As two bits, which of two values are above zero.
__device__ __forceinline__ u32 above_zero(const float* v) { return (v[0] > 0.0f ? 1 : 0) | (v[1] > 0.0f ? 2 : 0); }

__device__ __forceinline__ float2 unpack_pair(u32 packed) {
  return make_float2(__uint_as_float(packed << 16), __uint_as_float(packed & 0xffff0000u));
}

// Two numbers as the sums of two bfloat16 numbers each, which have 16 bits together: rounded, and what that leaves.
struct Split {
  u32 high, low;
  __device__ __forceinline__ Split(float x, float y) : high(pack(x, y)) {
    const float2 rounded = unpack_pair(high);
    low = pack(x - rounded.x, y - rounded.y);
  }
  __device__ __forceinline__ void to(u32& high_word, u32& low_word) const { high_word = high, low_word = low; }
};

