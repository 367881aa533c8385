// What the latents of edges are made of, besides products: part of the attention's forward kernel with FEATURES.
//
// The features of an edge (i, j), one after the other:
//   the scalars s_ik, averaged over k with the attention's weights; with VALUES_OF_JK the scalars s_jk likewise;
//   with RESIDUAL its own scalars; with MAXIMA so many maxima over k, which another kernel has found.

#define MIXED ((VALUES_OF_JK ? 2 : 1) * P)
#define OF_RESIDUAL MIXED
#define OF_MAXIMA (MIXED + (RESIDUAL ? P : 0))
static_assert(FEATURES == OF_MAXIMA + MAXIMA, "features that nobody writes");

// The averages of a warp's 4 x 4 edges, with a running softmax: a lane has one edge, and those of s_ik or of s_jk.
struct FeatureMix {
  int i, j;
  const float* of_node;  // the scalars of edges from i or j
  float highest, total, sums[P];

  static __device__ __forceinline__ int number() { return threadIdx.x % 32 / 2; }  // of the edge: 4 a + b
  static __device__ __forceinline__ int kind() { return threadIdx.x % 2; }
  // Whether this warp has the edge, where several have 4 x 4 of them together.
  static __device__ __forceinline__ bool is_mine(int part) { return number() / 4 % SHARING == part; }
  static __device__ __forceinline__ bool averages() { return VALUES_OF_JK || kind() == 0; }

  __device__ __forceinline__ FeatureMix(const float* scalars, int first_i, int first_j)
      : i(first_i + number() / 4), j(first_j + number() % 4), highest(-1e30f), total(0.0f) {
    of_node = edge(scalars, last(kind() ? j : i), 0);
#pragma unroll
    for (int p = 0; p < P; ++p) sums[p] = 0.0f;
  }

  // Sixteen third nodes more.
  __device__ __forceinline__ void add(const float (&logits)[16][17], int part, int first_k) {
    if (!is_mine(part) || !averages()) return;
    const float* of_edge = logits[number()];
    float higher = highest;
#pragma unroll
    for (int k = 0; k < 16; ++k) higher = fmaxf(higher, of_edge[k]);
    const float shrink = __expf(highest - higher);
    highest = higher, total *= shrink;
#pragma unroll
    for (int p = 0; p < P; ++p) sums[p] *= shrink;
#pragma unroll 4
    for (int k = 0; k < 16; ++k) {
      const float weight = __expf(of_edge[k] - higher);  // zero beyond the last node
      const float* s = of_node + last(first_k + k) * P;
      total += weight;
#if P % 2 == 0
#pragma unroll
      for (int p = 0; p < P; p += 2) {
        const float2 two = *(const float2*)(s + p);
        sums[p] = fmaf(weight, two.x, sums[p]), sums[p + 1] = fmaf(weight, two.y, sums[p + 1]);
      }
#else
#pragma unroll
      for (int p = 0; p < P; ++p) sums[p] = fmaf(weight, s[p], sums[p]);
#endif
    }
  }

  __device__ __forceinline__ void write(
      int part, const float* scalars, const float* maxima, float* features, float* record) {
    if (!is_mine(part) || i >= N || j >= N) return;
    float* out = features + (i * N + j) * FEATURES;
    if (averages()) {
      out += kind() * P;
#pragma unroll
      for (int p = 0; p < P; ++p) out[p] = sums[p] / total;
      out -= kind() * P;
    }
    if (kind() == 0) {
      if (SAVE) record[(i * N + j) * RECORD + N] = highest + __logf(total);
#if RESIDUAL
      const float* own = edge(scalars, i, j);
#pragma unroll
      for (int p = 0; p < P; ++p) out[OF_RESIDUAL + p] = own[p];
#endif
    }
#if MAXIMA
    if (kind() == 1) {
#pragma unroll
      for (int f = 0; f < MAXIMA; ++f) out[OF_MAXIMA + f] = maxima[(i * N + j) * MAXIMA + f];
    }
#endif
  }
};
