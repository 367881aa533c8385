// How strongly node i points to node p: sum_h w_h max(a_i, b_p + e_pi)_h + bias, where e_pi is D s_pi + c, or with DENSE given.
//
// Compiled for one number of nodes N, of scalars per edge P (at least 1) and of samples SAMPLES. A node's a and b stand
// in a row of WIDTH floats, at FIRST and SECOND. A lane holds the features l, l + 32, l + 64 and l + 96, so that rows
// need no alignment. blockIdx.z is the seed. A program has four nodes, one per warp. With SOFTMAX, softmax over p.

#define BLOCKS ((N + WARPS - 1) / WARPS)
#define GROUP 8          // nodes that a warp takes at a time
#define PART (H / 32)    // features per lane
#define SMALL (P + 3)    // rows of small gradients: D, c, w, and the bias in front of zeros

struct Weights {
  float score[PART], offset[PART], directions[P][PART];
  __device__ __forceinline__ Weights(const float* d, const float* c, const float* w) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int q = 0; q < PART; ++q) {
      score[q] = w[32 * q + lane];
      offset[q] = DENSE ? 0.0f : c[32 * q + lane];
#pragma unroll
      for (int p = 0; p < P; ++p) directions[p][q] = DENSE ? 0.0f : d[p * H + 32 * q + lane];
    }
  }
};

// b_p + e_pi.
__device__ __forceinline__ void target(
    const Weights& weights, const float* b, const float* edges, int p, int i, float (&out)[PART]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int q = 0; q < PART; ++q) out[q] = b[q] + weights.offset[q];
  if (DENSE) {
#pragma unroll
    for (int q = 0; q < PART; ++q) out[q] += edges[(p * N + i) * H + 32 * q + lane];
  } else {
#pragma unroll
    for (int s = 0; s < P; ++s) {
      const float scalar = edges[(p * N + i) * P + s];
#pragma unroll
      for (int q = 0; q < PART; ++q) out[q] = fmaf(scalar, weights.directions[s][q], out[q]);
    }
  }
}

__device__ __forceinline__ void load_row(const float* row, float (&out)[PART]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int q = 0; q < PART; ++q) out[q] = row[32 * q + lane];
}

#define EDGE_SIZE (DENSE ? H : P)

#if defined(BUILD_pointer_forward)
// A warp has an i. With SOFTMAX also the softmax over p: first what its normaliser is, then the probabilities from the
// logits, which each lane reads again where it has written them itself.
extern "C" __global__ void __launch_bounds__(THREADS) pointer_forward(
    const float* nodes, const float* edges, const float* directions, const float* offset, const float* score,
    const float* bias, TIME_PARAMETERS float* logits
#if SOFTMAX
    , float* probabilities
#endif
#if TIMED_probabilities
    , float* copy
#endif
) {
  const int seed = blockIdx.z, sample = blockIdx.x / BLOCKS, lane = threadIdx.x % 32;
  const int i = blockIdx.x % BLOCKS * WARPS + threadIdx.x / 32;
  if (i >= N) return;
  const long long index = (long long)seed * SAMPLES + sample;
  nodes += index * N * WIDTH;
  edges += ((long long)row_of(seed, TIMED_edges, NOW) * SAMPLES + sample) * N * N * EDGE_SIZE;
  logits += (((long long)row_of(seed, TIMED_logits, NOW) * SAMPLES + sample) * N + i) * N;
#if SOFTMAX
  probabilities += (((long long)row_of(seed, TIMED_probabilities, NOW) * SAMPLES + sample) * N + i) * N;
#endif
#if TIMED_probabilities
  copy += (index * N + i) * N;
#endif
  if (HAS_ENDED(index)) {
    for (int p = lane; p < N; p += 32) {
      logits[p] = 0.0f;
#if SOFTMAX
      probabilities[p] = 0.0f;
#endif
#if TIMED_probabilities
      copy[p] = 0.0f;
#endif
    }
    return;
  }
  const Weights weights(directions + seed * P * H, offset + seed * H, score + seed * H);
  float a[PART], highest = -3.0e38f, total = 0.0f;
  load_row(nodes + i * WIDTH + FIRST, a);
#pragma unroll 1
  for (int first = 0; first < N; first += GROUP) {
    float sums[GROUP];
#pragma unroll
    for (int g = 0; g < GROUP; ++g) {
      const int p = first + g < N ? first + g : N - 1;
      float b[PART], other[PART];
      load_row(nodes + p * WIDTH + SECOND, b);
      target(weights, b, edges, p, i, other);
      sums[g] = 0.0f;
#pragma unroll
      for (int q = 0; q < PART; ++q) sums[g] = fmaf(weights.score[q], fmaxf(a[q], other[q]), sums[g]);
    }
    const float logit = sum_over_lanes<GROUP>(sums) + bias[seed];
    const int p = first + lane % GROUP;
    if (p < N) {
      if (lane < GROUP) logits[p] = logit;
      const float next = fmaxf(highest, logit);
      total = total * __expf(highest - next) + __expf(logit - next);
      highest = next;
    }
  }
#if SOFTMAX
  // Lanes l, l + GROUP, ... have the same.
#pragma unroll
  for (int step = 1; step < GROUP; step *= 2) {
    const float others = __shfl_xor_sync(0xffffffff, highest, step), sum = __shfl_xor_sync(0xffffffff, total, step);
    const float next = fmaxf(highest, others);
    total = total * __expf(highest - next) + sum * __expf(others - next);
    highest = next;
  }
  if (lane < GROUP)
    for (int p = lane; p < N; p += GROUP) {
      const float probability = __expf(logits[p] - highest) / total;
      probabilities[p] = probability;
#if TIMED_probabilities
      copy[p] = probability;
#endif
    }
#endif
}
#endif

// Half of the gradient goes to each of two that are equal.
__device__ __forceinline__ float share(float winner, float other) {
  return winner > other ? 1.0f : winner == other ? 0.5f : 0.0f;
}

#if defined(BUILD_pointer_backward)
// blockIdx.y == 0: a warp has a p, and finds the gradients of b_p, of its edges and, per block, of D, c and w.
// blockIdx.y == 1: a warp has an i, and finds the gradient of a_i.
extern "C" __global__ void __launch_bounds__(THREADS) pointer_backward(
    const float* nodes, const float* edges, const float* directions, const float* offset, const float* score,
    const float* d_logits,
#if SOFTMAX
    const float* probabilities, const float* d_probabilities,
#endif
    TIME_PARAMETERS float* d_first, float* d_second, float* d_edges, float* small) {
  const int seed = blockIdx.z, sample = blockIdx.x / BLOCKS, lane = threadIdx.x % 32;
  const int mine = blockIdx.x % BLOCKS * WARPS + threadIdx.x / 32;
  const long long index = (long long)seed * SAMPLES + sample;
  d_logits += ((long long)row_of(seed, TIMED_logits, NOW) * SAMPLES + sample) * N * N;
#if SOFTMAX
  // The gradient of a logit is that of the logit itself and p (d_p - sum of p d_p) through the softmax.
  probabilities += ((long long)row_of(seed, TIMED_probabilities, NOW) * SAMPLES + sample) * N * N;
  d_probabilities += index * N * N;
  float* expected = (float*)memory;
  for (int i = threadIdx.x / 32; i < N; i += WARPS) {
    float sum = 0.0f;
    for (int p = lane; p < N; p += 32) sum = fmaf(probabilities[i * N + p], d_probabilities[i * N + p], sum);
    sum = sum_over_groups<1>(sum);
    if (lane == 0) expected[i] = sum;
  }
  __syncthreads();
  const auto d_logit = [&](int i, int p) {
    return fmaf(probabilities[i * N + p], d_probabilities[i * N + p] - expected[i], d_logits[i * N + p]);
  };
#else
  const auto d_logit = [&](int i, int p) { return d_logits[i * N + p]; };
#endif
  const bool is_node = mine < N;
  if (blockIdx.y == 1 && !is_node) return;
  nodes += ((long long)row_of(seed, TIMED_nodes, NOW) * SAMPLES + sample) * N * WIDTH;
  edges += ((long long)row_of(seed, TIMED_edges, NOW) * SAMPLES + sample) * N * N * EDGE_SIZE;
  d_edges += index * N * N * EDGE_SIZE;
  const Weights weights(directions + seed * P * H, offset + seed * H, score + seed * H);
  float row[PART], other[PART], sum[PART];
#pragma unroll
  for (int q = 0; q < PART; ++q) sum[q] = 0.0f;
  const int count = !is_node || HAS_ENDED(index) ? 0 : N;  // of nodes with a share

  if (blockIdx.y == 1) {
    load_row(nodes + mine * WIDTH + FIRST, row);
#pragma unroll 2
    for (int p = 0; p < count; ++p) {
      float b[PART];
      load_row(nodes + p * WIDTH + SECOND, b);
      target(weights, b, edges, p, mine, other);
      const float d = d_logit(mine, p);
#pragma unroll
      for (int q = 0; q < PART; ++q) sum[q] = fmaf(d * weights.score[q], share(row[q], other[q]), sum[q]);
    }
#pragma unroll
    for (int q = 0; q < PART; ++q) d_first[(index * N + mine) * H + 32 * q + lane] = sum[q];
    return;
  }

  float of_score[PART], of_directions[P][PART], of_bias = 0.0f;
#pragma unroll
  for (int q = 0; q < PART; ++q) {
    of_score[q] = 0.0f;
#pragma unroll
    for (int s = 0; s < P; ++s) of_directions[s][q] = 0.0f;
  }
  load_row(nodes + (is_node ? mine : 0) * WIDTH + SECOND, row);
  if (is_node && count == 0)
    for (int at = lane; at < N * EDGE_SIZE; at += 32) d_edges[mine * N * EDGE_SIZE + at] = 0.0f;
#pragma unroll 1
  for (int first = 0; first < count; first += GROUP) {
    float of_edges[P][GROUP];
#pragma unroll
    for (int g = 0; g < GROUP; ++g) {
      const bool valid = first + g < N;
      const int i = valid ? first + g : N - 1;
      const float d = valid ? d_logit(i, mine) : 0.0f;
      of_bias += d;
      float a[PART];
      load_row(nodes + i * WIDTH + FIRST, a);
      target(weights, row, edges, mine, i, other);
#pragma unroll
      for (int s = 0; s < P; ++s) of_edges[s][g] = 0.0f;
#pragma unroll
      for (int q = 0; q < PART; ++q) {
        of_score[q] = fmaf(d, fmaxf(a[q], other[q]), of_score[q]);
        const float gradient = d * weights.score[q] * share(other[q], a[q]);
        sum[q] += gradient;
        if (DENSE) {
          if (valid) d_edges[(mine * N + i) * H + 32 * q + lane] = gradient;
        } else {
#pragma unroll
          for (int s = 0; s < P; ++s) {
            of_edges[s][g] = fmaf(gradient, weights.directions[s][q], of_edges[s][g]);
            of_directions[s][q] = fmaf(gradient, edges[(mine * N + i) * P + s], of_directions[s][q]);
          }
        }
      }
    }
    if (!DENSE) {
#pragma unroll
      for (int s = 0; s < P; ++s) {
        const float total = sum_over_lanes<GROUP>(of_edges[s]);
        if (lane < GROUP && first + lane < N) d_edges[(mine * N + first + lane) * P + s] = total;
      }
    }
  }
  // The small gradients are summed over the warps.
  float *shares = (float*)memory + (SOFTMAX ? N : 0), *own = shares + threadIdx.x / 32 * SMALL * H;
#pragma unroll
  for (int q = 0; q < PART; ++q) {
    const int h = 32 * q + lane;
    if (is_node) d_second[(index * N + mine) * H + h] = sum[q];
#pragma unroll
    for (int s = 0; s < P; ++s) own[s * H + h] = of_directions[s][q];
    own[P * H + h] = sum[q];
    own[(P + 1) * H + h] = of_score[q];
    own[(P + 2) * H + h] = h == 0 ? of_bias : 0.0f;
  }
  __syncthreads();
  small += (((long long)row_of(seed, TIMED_small, NOW) * SAMPLES + sample) * BLOCKS + blockIdx.x % BLOCKS) * SMALL * H;
  for (int at = threadIdx.x; at < SMALL * H; at += THREADS) {
    float total = 0.0f;
#pragma unroll
    for (int warp = 0; warp < WARPS; ++warp) total += shares[warp * SMALL * H + at];
    small[at] = total;
  }
}
#endif
