// The logits of Triplet Edge Attention from dense vectors of pairs: sum_h a_h LeakyReLU(u_ij + w_ik + q_jk)_h.
//
// Compiled for one number of nodes N. blockIdx.z is the sample. A warp has 4 x 4 edges (i, j), whose vectors stay in
// registers, and walks over k; a block has 8 x 8. With LeakyReLU(t) = (1 + SLOPE) / 2 t + (1 - SLOPE) / 2 |t| the linear
// part is a sum over pairs, so only |t| is summed over all triplets.

#define TILES ((N + 7) / 8)

__device__ __forceinline__ float4 scaled(float4 a, float s) { return make_float4(a.x * s, a.y * s, a.z * s, a.w * s); }

#if defined(BUILD_triplet_logits)
extern "C" __global__ void __launch_bounds__(THREADS, 3) triplet_logits(
    const float* __restrict__ pair_ij, const float* __restrict__ pair_ik, const float* __restrict__ pair_jk,
    const float* attention, float* logits) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int first_i = blockIdx.x / TILES * 8 + warp / 2 * 4, first_j = blockIdx.x % TILES * 8 + warp % 2 * 4;
  if (first_i >= N || first_j >= N) return;
  const long long pairs = (long long)blockIdx.z * N * N;
  pair_ij += pairs * H;
  pair_ik += pairs * H;
  pair_jk += pairs * H;
  logits += pairs * N;
  const float4 weights = features(attention + blockIdx.z * H);
  const float4 linear = scaled(weights, 0.5f + 0.5f * SLOPE), absolute = scaled(weights, 0.5f - 0.5f * SLOPE);

  float4 u[4][4];
  float sums[16];
#pragma unroll
  for (int a = 0; a < 4; ++a)
#pragma unroll
    for (int b = 0; b < 4; ++b) {
      u[a][b] = features(pair_ij + (last(first_i + a) * N + last(first_j + b)) * H);
      sums[4 * a + b] = dot(linear, u[a][b], 0.0f);
    }
  // After a sum over lanes, lane l has the edge number l % 16 of the warp.
  const float from_u = sum_over_lanes<16>(sums);
  const int i = first_i + lane % 16 / 4, j = first_j + lane % 4;
  const bool writes = lane < 16 && i < N && j < N;
#pragma unroll 1
  for (int k = 0; k < N; ++k) {
    float4 w[4], q[4];
    float from_w[4], from_q[4];
#pragma unroll
    for (int a = 0; a < 4; ++a) {
      w[a] = features(pair_ik + (last(first_i + a) * N + k) * H);
      q[a] = features(pair_jk + (last(first_j + a) * N + k) * H);
      from_w[a] = dot(linear, w[a], 0.0f);
      from_q[a] = dot(linear, q[a], 0.0f);
    }
#pragma unroll
    for (int a = 0; a < 4; ++a)
#pragma unroll
      for (int b = 0; b < 4; ++b)
        sums[4 * a + b] = dot_absolute(absolute, u[a][b] + w[a] + q[b], from_w[a] + from_q[b]);
    const float logit = sum_over_lanes<16>(sums);
    if (writes) logits[((long long)i * N + j) * N + k] = logit + from_u;
  }
}
#endif
