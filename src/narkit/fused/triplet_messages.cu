// Triplet-GMPNN's messages of triplets, and who sent them: the forward kernel and its reverse. See triplet_messages.py for
// the formulas.
//
// Compiled for one number of nodes N, of scalars per edge P (at least 1) and of samples SAMPLES. blockIdx.z is the seed.
// A thread has one of the FEATURES of a node, so that eight neighbours read the same scalars. Gradients of maxima may
// stand in a wider array: GRADIENTS numbers per pair, of which those of maxima begin at FIRST_GRADIENT.

#define FEATURES 8
#define OWN_TERMS (3 * FEATURES)       // per node: x_i, x_j, x_k, the last of the TERMS of a row
#define NODES (THREADS / FEATURES)     // nodes that the threads of a block hold
#define RECEIVERS 4                    // nodes j that a block of the forward kernel has
#define BLOCKS ((N + NODES - 1) / NODES)
#define RECEIVER_BLOCKS ((N + RECEIVERS - 1) / RECEIVERS)

// `start` plus this feature of s_ab E.
__device__ __forceinline__ float through(
    const float* scalars, int a, int b, const float (&directions)[P], float start) {
  const float* s = scalars + (a * N + b) * P;
#pragma unroll
  for (int p = 0; p < P; ++p) start = fmaf(s[p], directions[p], start);
  return start;
}

// This thread's column of E1, E2 or E3.
__device__ __forceinline__ void load_column(const float* triplet, int which, float (&out)[P]) {
#pragma unroll
  for (int p = 0; p < P; ++p) out[p] = triplet[(which * P + p) * FEATURES + threadIdx.x % FEATURES];
}

#if defined(BUILD_triplets_forward)
// Shared memory: u_ij of the block's receivers. With SAVE also the nodes i that the maxima came from.
extern "C" __global__ void __launch_bounds__(THREADS) triplets_forward(
    const float* nodes, const float* scalars, const float* triplet, TIME_PARAMETERS float* maxima
#if SAVE
    , int* winners
#endif
) {
  float* pairs = (float*)memory;
  const int blocks = BLOCKS * RECEIVER_BLOCKS, block = blockIdx.x % blocks;
  const Sample sample(blocks);
  if (HAS_ENDED(sample.seed * SAMPLES + sample.sample)) {
    if (block) return;
    maxima += sample.at(TIMED_maxima, NOW) * N * N * FEATURES;
    write_zeros(maxima, N * N * FEATURES, THREADS);
    return;
  }
  const int now = NOW, first_j = block / BLOCKS * RECEIVERS, f = threadIdx.x % FEATURES;
  const int k = block % BLOCKS * NODES + threadIdx.x / FEATURES;
  nodes += sample.at(TIMED_terms, now) * N * TERMS + TERMS - OWN_TERMS;
  scalars += sample.at(TIMED_scalars, now) * N * N * P;
  triplet += sample.seed * 3 * P * FEATURES;
  maxima += sample.at(TIMED_maxima, now) * N * N * FEATURES;
#if SAVE
  winners += sample.at(TIMED_winners, now) * N * N * FEATURES;
#endif

  float directions[P];
  load_column(triplet, 0, directions);
  for (int at = threadIdx.x; at < N * RECEIVERS * FEATURES; at += THREADS) {
    const int i = at / (RECEIVERS * FEATURES), j = last(first_j + at / FEATURES % RECEIVERS);
    pairs[at] = through(scalars, i, j, directions, nodes[i * TERMS + f]);
  }
  __syncthreads();
  load_column(triplet, 1, directions);
  float best[RECEIVERS];
  int from[RECEIVERS];
#pragma unroll
  for (int b = 0; b < RECEIVERS; ++b) best[b] = -3.0e38f, from[b] = 0;
#pragma unroll 4
  for (int i = 0; i < N; ++i) {
    const float w = through(scalars, i, last(k), directions, 0.0f);
#pragma unroll
    for (int b = 0; b < RECEIVERS; ++b) {
      const float sum = pairs[(i * RECEIVERS + b) * FEATURES + f] + w;
      if (sum > best[b]) best[b] = sum, from[b] = i;
    }
  }
  if (k >= N) return;
  load_column(triplet, 2, directions);
  const float own = nodes[k * TERMS + 2 * FEATURES + f];
#pragma unroll
  for (int b = 0; b < RECEIVERS; ++b) {
    const int j = first_j + b;
    if (j >= N) break;
    const int at = (j * N + k) * FEATURES + f;
    maxima[at] = best[b] + through(scalars, j, k, directions, nodes[j * TERMS + FEATURES + f] + own);
#if SAVE
    winners[at] = from[b];
#endif
  }
}
#endif

#if defined(BUILD_triplets_backward)
// The gradient of a pair's scalars through E1, E2 or E3.
__device__ __forceinline__ void pull_back(const float* gradient, const float* directions, float* out) {
#pragma unroll
  for (int p = 0; p < P; ++p) {
    float sum = 0.0f;
#pragma unroll
    for (int f = 0; f < FEATURES; ++f) sum = fmaf(gradient[f], directions[p * FEATURES + f], sum);
    out[p] = sum;
  }
}

// blockIdx.y == 0: a block has nodes j and all k, and finds the gradients of u_ij, x_i, x_j, s_jk and E1, E3.
// blockIdx.y == 1: a block has nodes k and all j, and finds those of w_ik, x_k and E2.
// Shared memory: the gradients of u_ij or w_ik; a thread sums those with its j or k, so none gets in another's way.
extern "C" __global__ void __launch_bounds__(THREADS) triplets_backward(
    const float* scalars, const float* triplet, const int* winners, const float* d_maxima,
    TIME_PARAMETERS float* d_nodes, float* d_scalars, float* small) {
  float* sums = (float*)memory;
  const Sample sample(BLOCKS);
  const int block = blockIdx.x % BLOCKS, kind = blockIdx.y;
  const int f = threadIdx.x % FEATURES, local = threadIdx.x / FEATURES, mine = block * NODES + local;
  scalars += sample.at(TIMED_scalars, NOW) * N * N * P;
  triplet += sample.seed * 3 * P * FEATURES;
  winners += sample.at(TIMED_winners, NOW) * N * N * FEATURES;
  d_maxima += sample.index * N * N * GRADIENTS + FIRST_GRADIENT;
  d_nodes += (sample.index * BLOCKS + block) * N * OWN_TERMS;
  d_scalars += sample.index * 3 * N * N * P;
  small += (sample.at(TIMED_small, NOW) * BLOCKS + block) * WARPS * 3 * P * FEATURES;

  float total = 0.0f, of_first[P] = {}, of_rest[P] = {};
  const bool has_ended = HAS_ENDED(sample.index);
  for (int i = 0; i < N; ++i) sums[i * THREADS + threadIdx.x] = 0.0f;
  if (mine < N && !has_ended) {
#pragma unroll 4
    for (int other = 0; other < N; ++other) {
      const int pair = kind == 0 ? mine * N + other : other * N + mine;
      const float d = d_maxima[pair * GRADIENTS + f];
      sums[winners[pair * FEATURES + f] * THREADS + threadIdx.x] += d;
      total += d;
      if (kind == 0) {
#pragma unroll
        for (int p = 0; p < P; ++p) of_rest[p] = fmaf(scalars[pair * P + p], d, of_rest[p]);
      }
    }
#pragma unroll 4
    for (int i = 0; i < N; ++i) {
      const float d = sums[i * THREADS + threadIdx.x];
#pragma unroll
      for (int p = 0; p < P; ++p) of_first[p] = fmaf(scalars[(i * N + mine) * P + p], d, of_first[p]);
    }
  }
  if (mine < N) d_nodes[mine * OWN_TERMS + (1 + kind) * FEATURES + f] = total;
  __syncthreads();
  // What other blocks find is added afterwards.
  for (int at = threadIdx.x; at < N * FEATURES; at += THREADS) {
    const int node = at / FEATURES;
    if (node / NODES != block) d_nodes[node * OWN_TERMS + (1 + kind) * FEATURES + f] = 0.0f;
    if (kind == 0) {
      float sum = 0.0f;
#pragma unroll
      for (int b = 0; b < NODES; ++b) sum += sums[node * THREADS + b * FEATURES + f];
      d_nodes[node * OWN_TERMS + f] = sum;
    }
  }
  for (int at = threadIdx.x; at < N * NODES; at += THREADS) {
    const int i = at / NODES, node = block * NODES + at % NODES;
    if (node >= N) continue;
    pull_back(sums + at * FEATURES, triplet + kind * P * FEATURES, d_scalars + ((kind * N + i) * N + node) * P);
    if (kind == 0)
      pull_back(
          d_maxima + (node * N + i) * GRADIENTS, triplet + 2 * P * FEATURES, d_scalars + ((2 * N + node) * N + i) * P);
  }
  small += threadIdx.x / 32 * 3 * P * FEATURES;
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const float first = sum_over_groups<FEATURES>(of_first[p]), rest = sum_over_groups<FEATURES>(of_rest[p]);
    if (threadIdx.x % 32 < FEATURES) {
      small[(kind * P + p) * FEATURES + f] = first;
      if (kind == 0) small[(2 * P + p) * FEATURES + f] = rest;
    }
  }
}
#endif
