// Vectors of triplets (i, j, k) on the matrix units, shared by the attention's forward and backward kernels.
//
// A triplet's vector is t = X_i + X_j + X_k + s_ij E1 + s_ik E2 + s_jk E3. What its pairs contribute, `s E`, is a product
// with few inputs: a pair's scalars in half precision and what the rounding leaves, times E in half precision. Sums of
// the three pairs are half precision, too (as exact as TF32), two at a time.
//
// Lane l of a warp is the place (g, q) = (l / 4, l % 4) of what the matrix units read and write.

#ifndef FEATURES
#define FEATURES 0  // how many numbers latents are made of, where other kernels make these
#endif
#ifndef ADDED
#define ADDED 0  // whether logits get what others have found for every triplet
#endif
// What is kept of an edge: its logits over k, their normaliser and, without FEATURES, the mixed scalars. Beyond 1,289
// nodes an int cannot count them all.
#define RECORDED (FEATURES ? N + 1 : N + 1 + P)
#if N > 1200
#define RECORD ((long long)RECORDED)
#else
#define RECORD RECORDED
#endif
#define SCALAR_STEPS ((P + 7) / 8)  // of eight scalars
#ifndef SCALE
#define SCALE 1.0f  // what logits are multiplied by
#endif
static_assert(TERMS % 4 == 0, "vectors are read four numbers at a time");
#define DIRECTION_WORDS (3 * SCALAR_STEPS * (H / 8) * 32)

// The scalars of the edge from a to b.
__device__ __forceinline__ const float* edge(const float* scalars, int a, int b) { return scalars + (a * N + b) * P; }

#if ATTENTION
struct Lane {
  int g, q;
  __device__ Lane() : g(threadIdx.x % 32 / 4), q(threadIdx.x % 4) {}
};

// Two directions (p and the next one) at one feature, rounded; zeros beyond the last.
__device__ __forceinline__ u32 pair_of_directions(const float* e, int p) {
  return pack_half(p < P ? e[0] : 0.0f, p + 1 < P ? e[H] : 0.0f);
}

// E1, E2, E3 as operands, for all threads of a block: per kind, step and eight features a word per lane. The order of
// features is the caller's: `feature_of(tile, g)`, a sum of what tile
// and g contribute, is number g of the eight.
template <typename F>
__device__ __forceinline__ void stage_directions(const float* triplet, u32* directions, F feature_of) {
  const Lane at;
  const int warp = threadIdx.x / 32;
#pragma unroll
  for (int step = 0; step < SCALAR_STEPS; ++step) {
    const int p = 8 * step + 2 * at.q;
    const float* e = triplet + p * H + feature_of(warp, at.g);
    u32* words = directions + (step * (H / 8) + warp) * 32 + threadIdx.x % 32;
#pragma unroll
    for (int kind = 0; kind < 3; ++kind)
#pragma unroll
      for (int tile = 0; tile < H / 8; tile += WARPS)
        words[(kind * SCALAR_STEPS * (H / 8) + tile) * 32] =
            pair_of_directions(e + kind * P * H + feature_of(tile, 0), p);
  }
}

__device__ __forceinline__ u32 direction(const u32* directions, int kind, int step, int tile) {
  return directions[((kind * SCALAR_STEPS + step) * (H / 8) + tile) * 32 + threadIdx.x % 32];
}

// The scalars of an edge, of which this lane holds two per step: in half precision, and what that leaves.
struct Scalars {
  u32 words[SCALAR_STEPS][2];
  __device__ __forceinline__ void load(const float* s) {
#pragma unroll
    for (int step = 0; step < SCALAR_STEPS; ++step) {
      const int p = 8 * step + 2 * Lane().q;
      const float first = p < P ? s[p] : 0.0f, second = p + 1 < P ? s[p + 1] : 0.0f;
      words[step][0] = pack_half(first, second);
      const float2 rounded = unpack_half(words[step][0]);
      words[step][1] = pack_half(first - rounded.x, second - rounded.y);
    }
  }
};

// The same of two edges as rows g and g + 8 of a left operand.
struct RowsOfScalars {
  u32 words[SCALAR_STEPS][4];
  __device__ __forceinline__ void load(const float* first, const float* second) {
    Scalars both[2];
    both[0].load(first);
    both[1].load(second);
#pragma unroll
    for (int step = 0; step < SCALAR_STEPS; ++step)
#pragma unroll
      for (int word = 0; word < 4; ++word) words[step][word] = both[word % 2].words[step][word / 2];
  }
};

// Sums four values over the lanes g; afterwards a lane has the sum of the value number `value_of_lane()`.
__device__ __forceinline__ float sum_over_g(float (&values)[4]) {
  const float total = sum_over_some_lanes<4, 8, 32>(values);
  return total + exchange_lanes(total, 4);
}
__device__ __forceinline__ int value_of_lane() { return threadIdx.x % 32 / 8; }
#endif
