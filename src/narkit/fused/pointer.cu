// How strongly node i points to node p: sum_h w_h max(a_i, b_p + e_pi)_h + bias, where e_pi is D s_pi + c, or with
// DENSE given.
//
// Compiled for one number of nodes N, of scalars per edge P (at least 1) and of samples SAMPLES. A node's a and b stand
// in a row of WIDTH floats, at FIRST and SECOND; rows need no alignment. blockIdx.z is the seed. A block has
// NODES nodes, one per warp, and each warp walks over all other nodes. With STAGED, the rows of these, the scalars of
// edges and the gradients of logits are asked for at once and wait in shared memory. With SOFTMAX, softmax over p.

#define BLOCKS ((N + NODES - 1) / NODES)
#define BLOCK (32 * NODES)
#define PART (H / 32)  // features per lane
#define SMALL (P + 3)  // rows of small gradients: D, c, w, and the bias in front of zeros
#define EDGE_SIZE (DENSE ? H : P)
#define EDGE_ROW ((P + 3) / 4 * 4)  // floats of an edge in shared memory

// A lane's features: neighbours where rows are aligned in shared memory, else 32 apart, so that lanes read neighbours.
__device__ __forceinline__ int feature(int q) {
  const int lane = threadIdx.x % 32;
  return STAGED ? PART * lane + q : 32 * q + lane;
}

// Of rows that begin anywhere.
__device__ __forceinline__ void load_row(const float* row, float (&out)[PART]) {
#pragma unroll
  for (int q = 0; q < PART; ++q) out[q] = row[feature(q)];
}

// Of rows that follow each other without gaps.
__device__ __forceinline__ void load_aligned(const float* row, float (&out)[PART]) {
  if (STAGED) {
    const float4 four = features(row);
    out[0] = four.x, out[1] = four.y, out[2] = four.z, out[3] = four.w;
  } else {
    load_row(row, out);
  }
}

__device__ __forceinline__ void store_aligned(float* row, const float (&values)[PART]) {
  if (STAGED) {
    ((float4*)row)[threadIdx.x % 32] = make_float4(values[0], values[1], values[2], values[3]);
  } else {
#pragma unroll
    for (int q = 0; q < PART; ++q) row[feature(q)] = values[q];
  }
}

struct Weights {
  float score[PART], directions[P][PART];
  __device__ __forceinline__ Weights(const float* d, const float* w) {
    load_aligned(w, score);
    if (DENSE) return;
#pragma unroll
    for (int p = 0; p < P; ++p) load_aligned(d + p * H, directions[p]);
  }
};

// An edge's scalars, from shared memory if they are staged.
struct Scalars {
  float s[EDGE_ROW];
  __device__ __forceinline__ Scalars(const float* from) {
#pragma unroll
    for (int first = 0; first < P; first += 4) {
      if (STAGED) {
        const float4 four = *(const float4*)(from + first);
        s[first] = four.x, s[first + 1] = four.y, s[first + 2] = four.z, s[first + 3] = four.w;
      } else {
#pragma unroll
        for (int p = first; p < first + 4; ++p) s[p] = p < P ? from[p] : 0.0f;
      }
    }
  }
};

// Adds e_pi without c, or what is given.
__device__ __forceinline__ void add_edge(
    const Weights& weights, const Scalars& scalars, const float* dense, float (&out)[PART]) {
  if (DENSE) {
    float given[PART];
    load_aligned(dense, given);
#pragma unroll
    for (int q = 0; q < PART; ++q) out[q] += given[q];
  } else {
#pragma unroll
    for (int p = 0; p < P; ++p)
#pragma unroll
      for (int q = 0; q < PART; ++q) out[q] = fmaf(scalars.s[p], weights.directions[p][q], out[q]);
  }
}

// b_p + e_pi, for this warp's i; `rows` and `staged` if they are staged, else `c` is added here.
__device__ __forceinline__ void target(
    const Weights& weights, const float* nodes, const float* edges, const float* rows, const float* staged,
    const float (&c)[PART], int warp, int p, int i, float (&out)[PART]) {
  if (STAGED) {
    load_aligned(rows + p * H, out);
  } else {
    load_row(nodes + p * WIDTH + SECOND, out);
#pragma unroll
    for (int q = 0; q < PART; ++q) out[q] += c[q];
  }
  const Scalars scalars(STAGED ? staged + (warp * N + p) * EDGE_ROW : edges + (p * N + i) * P);
  add_edge(weights, scalars, edges + (p * N + i) * H, out);
}

// The rows of all nodes, from column `first` of theirs, with what is added to each. A thread has a feature.
__device__ __forceinline__ void stage_rows(float* to, const float* nodes, int first, float added) {
  const int h = threadIdx.x % H;
#pragma unroll 16
  for (int turn = 0; turn < N; turn += BLOCK / H) {
    const int i = turn + threadIdx.x / H;
    if (N % (BLOCK / H) == 0 || i < N) to[i * H + h] = nodes[i * WIDTH + first + h] + added;
  }
}

// The scalars of the edges between the block's nodes, from `begin` on, and all others: (p, i) for these as p, or as i.
// They are asked for when this is made, and stored later.
template <bool OF_TARGETS>
struct StagedEdges {
  static constexpr int TOTAL = STAGED && !DENSE ? NODES * N * P : 0, COUNT = (TOTAL + BLOCK - 1) / BLOCK;
  float values[COUNT ? COUNT : 1];

  __device__ __forceinline__ StagedEdges(const float* edges, int begin) {
    for_all([&](int warp, int other, int s, float& value) {
      const int mine = begin + warp < N ? begin + warp : N - 1;
      value = edges[(OF_TARGETS ? mine * N + other : other * N + mine) * P + s];
    });
  }
  __device__ __forceinline__ void store(float* to) {
    for_all([&](int warp, int other, int s, float& value) { to[(warp * N + other) * EDGE_ROW + s] = value; });
  }
  template <typename F>
  __device__ __forceinline__ void for_all(F f) {
#pragma unroll
    for (int turn = 0; turn < COUNT; ++turn) {
      const int at = turn * BLOCK + threadIdx.x, pair = at / P;
      const int warp = OF_TARGETS ? pair / N : pair % NODES, other = OF_TARGETS ? pair % N : pair / NODES;
      if (at < TOTAL) f(warp, other, at % P, values[turn]);
    }
  }
};

#if defined(BUILD_pointer_forward)
#define GROUP 8  // nodes that a warp takes at a time

// A warp has an i. With SOFTMAX also the softmax over p: first what its normaliser is, then the probabilities from the
// logits, which each lane reads again where it has kept them itself.
extern "C" __global__ void __launch_bounds__(BLOCK) pointer_forward(
    const float* nodes, const float* edges, const float* directions, const float* offset, const float* score,
    const float* bias, TIME_PARAMETERS float* logits
#if SOFTMAX
    , float* probabilities
#endif
#if TIMED_probabilities
    , float* copy
#endif
) {
#if !SOFTMAX
  float* probabilities = 0;
#endif
#if !TIMED_probabilities
  float* copy = 0;
#endif
  const Sample sample(BLOCKS);
  const int lane = threadIdx.x % 32, warp = warp_number(), begin = blockIdx.x % BLOCKS * NODES, i = begin + warp;
  nodes += sample.at(TIMED_nodes, NOW) * N * WIDTH;
  edges += sample.at(TIMED_edges, NOW) * N * N * EDGE_SIZE;
  logits += (sample.at(TIMED_logits, NOW) * N + i) * N;
  probabilities += (sample.at(TIMED_probabilities, NOW) * N + i) * N;
  copy += (sample.index * N + i) * N;
  if (HAS_ENDED(sample.index)) {
    if (i >= N) return;
    for (int p = lane; p < N; p += 32) {
      logits[p] = 0.0f;
      if (SOFTMAX) probabilities[p] = 0.0f;
      if (TIMED_probabilities) copy[p] = 0.0f;
    }
    return;
  }
  float *rows = (float*)memory, *staged = rows + N * H;
  float* kept = STAGED ? staged + NODES * N * EDGE_ROW + warp * N : logits;
  const Weights weights(directions + sample.seed * P * H, score + sample.seed * H);
  const float added = bias[sample.seed];
  float a[PART], c[PART] = {0.0f, 0.0f, 0.0f, 0.0f}, highest = -3.0e38f, total = 0.0f;
  load_row(nodes + (i < N ? i : 0) * WIDTH + FIRST, a);
  if (STAGED) {
    StagedEdges<false> of_edges(edges, begin);
    stage_rows(rows, nodes, SECOND, DENSE ? 0.0f : offset[sample.seed * H + threadIdx.x % H]);
    of_edges.store(staged);
    __syncthreads();
  } else if (!DENSE) {
    load_aligned(offset + sample.seed * H, c);
  }
  if (i >= N) return;
#pragma unroll 1
  for (int first = 0; first < N; first += GROUP) {
    float sums[GROUP];
#pragma unroll
    for (int g = 0; g < GROUP; ++g) {
      const int p = N % GROUP == 0 || first + g < N ? first + g : N - 1;
      float other[PART];
      target(weights, nodes, edges, rows, staged, c, warp, p, i, other);
      sums[g] = 0.0f;
#pragma unroll
      for (int q = 0; q < PART; ++q) sums[g] = fmaf(weights.score[q], fmaxf(a[q], other[q]), sums[g]);
    }
    const float logit = sum_over_lanes<GROUP>(sums) + added;
    const int p = first + lane % GROUP;
    if (p < N) {
      if (lane < GROUP) {
        logits[p] = logit;
        if (STAGED) kept[p] = logit;
      }
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
  const float inverse = 1.0f / total;
  if (lane < GROUP)
    for (int p = lane; p < N; p += GROUP) {
      const float probability = __expf(kept[p] - highest) * inverse;
      probabilities[p] = probability;
      if (TIMED_probabilities) copy[p] = probability;
    }
#endif
}
#endif

#if defined(BUILD_pointer_backward)
// The gradients of edges' scalars are summed over lanes eight at a time: of CHUNK scalars, for several of GROUP nodes.
#define CHUNK (P == 1 ? 1 : P == 2 ? 2 : P <= 4 ? 4 : 8)
#define CHUNKS ((P + CHUNK - 1) / CHUNK)
#define GROUP (P <= 2 ? 8 : P <= 4 ? 4 : P <= 8 ? 2 : 1)
#define SETS (CHUNK * GROUP / 8)

// The gradients of logits, from what is given: d_logit(i, p). With the softmax, that of the logit itself and
// p (d_p - sum of p d_p). If they are staged, those of the block's nodes, from `begin` on, come to shared memory, by
// warp and other node, for these as p, or as i. Else the sums do, of all i.
struct Gradients {
  const float *d_logits, *probabilities, *d_probabilities;
  float* kept;

  __device__ __forceinline__ float at(int warp, int i, int p, int other) const {
    if (STAGED) return kept[warp * N + other];
    float d = d_logits[i * N + p];
    if (SOFTMAX) d = fmaf(probabilities[i * N + p], d_probabilities[i * N + p] - kept[i], d);
    return d;
  }
  template <bool OF_TARGETS>
  __device__ __forceinline__ void stage(int begin) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    constexpr int LANES = N <= 8 ? 8 : N <= 16 ? 16 : 32;  // for a row
    constexpr int ROWS = OF_TARGETS ? N : NODES, AT_A_TIME = 32 / LANES;
#pragma unroll
    for (int turn = 0; turn < (ROWS + NODES * AT_A_TIME - 1) / (NODES * AT_A_TIME); ++turn) {
      const int row = (turn * NODES + warp) * AT_A_TIME + lane / LANES, p = lane % LANES;
      const int i = OF_TARGETS ? row : begin + row, at = i * N + p;
      const bool valid = row < ROWS && i < N && p < N;
      float d = valid ? d_logits[at] : 0.0f;
      if (SOFTMAX) {
        const float probability = valid ? probabilities[at] : 0.0f, given = valid ? d_probabilities[at] : 0.0f;
        float expected = probability * given;
#pragma unroll
        for (int step = 1; step < LANES; step *= 2) expected += __shfl_xor_sync(0xffffffff, expected, step);
        d = fmaf(probability, given - expected, d);
      }
      if (valid && (!OF_TARGETS || (p >= begin && p < begin + NODES)))
        kept[OF_TARGETS ? (p - begin) * N + i : row * N + p] = d;
    }
  }
  __device__ __forceinline__ void expect() const {
    const int lane = threadIdx.x % 32;
    for (int i = threadIdx.x / 32; i < N; i += NODES) {
      float sum = 0.0f;
      for (int p = lane; p < N; p += 32) sum = fmaf(probabilities[i * N + p], d_probabilities[i * N + p], sum);
      sum = sum_over_groups<1>(sum);
      if (lane == 0) kept[i] = sum;
    }
  }
};

// blockIdx.y == 0: a warp has a p, and finds the gradients of b_p, of its edges and, per block, of D, c and w.
// blockIdx.y == 1: a warp has an i, and finds the gradient of a_i.
extern "C" __global__ void __launch_bounds__(BLOCK, P <= 4 ? 24 / NODES : 1) pointer_backward(
    const float* nodes, const float* edges, const float* directions, const float* offset, const float* score,
    const float* d_logits,
#if SOFTMAX
    const float* probabilities, const float* d_probabilities,
#endif
    TIME_PARAMETERS float* d_first, float* d_second, float* d_edges, float* small) {
  const Sample sample(BLOCKS);
  const int lane = threadIdx.x % 32, warp = warp_number(), begin = blockIdx.x % BLOCKS * NODES, mine = begin + warp;
  const bool is_node = mine < N;
  d_first += (sample.index * N + mine) * H;
  d_second += (sample.index * N + mine) * H;
  d_edges += (sample.index * N + mine) * N * EDGE_SIZE;
  small += (sample.at(TIMED_small, NOW) * BLOCKS + blockIdx.x % BLOCKS) * SMALL * H;
  float sum[PART] = {0.0f, 0.0f, 0.0f, 0.0f};
  if (HAS_ENDED(sample.index)) {
    if (is_node) store_aligned(blockIdx.y == 1 ? d_first : d_second, sum);
    if (blockIdx.y == 1) return;
    for (int at = lane; is_node && at < N * EDGE_SIZE; at += 32) d_edges[at] = 0.0f;
    write_zeros(small, SMALL * H, BLOCK);
    return;
  }
  nodes += sample.at(TIMED_nodes, NOW) * N * WIDTH;
  edges += sample.at(TIMED_edges, NOW) * N * N * EDGE_SIZE;
  float *rows = (float*)memory, *staged = rows + N * H;
  Gradients d_logit;
  d_logit.d_logits = d_logits + sample.at(TIMED_logits, NOW) * N * N;
#if SOFTMAX
  const long long place = sample.at(TIMED_probabilities, NOW);
  d_logit.probabilities = probabilities + place * N * N;
  d_logit.d_probabilities = d_probabilities + sample.index * N * N;
#endif
  d_logit.kept = STAGED ? staged + NODES * N * EDGE_ROW : (float*)memory;
  const Weights weights(directions + sample.seed * P * H, score + sample.seed * H);
  const float added = DENSE ? 0.0f : offset[sample.seed * H + threadIdx.x % H];
  float row[PART], other[PART], c[PART] = {0.0f, 0.0f, 0.0f, 0.0f};
  load_row(nodes + (is_node ? mine : 0) * WIDTH + (blockIdx.y == 1 ? FIRST : SECOND), row);
  if (!DENSE) load_aligned(offset + sample.seed * H, c);
  if (!STAGED && SOFTMAX) d_logit.expect();

  if (blockIdx.y == 1) {
    if (STAGED) {
      StagedEdges<false> of_edges(edges, begin);
      d_logit.stage<false>(begin);
      stage_rows(rows, nodes, SECOND, added);
      of_edges.store(staged);
    }
    __syncthreads();
    if (!is_node) return;
#pragma unroll 4
    for (int p = 0; p < N; ++p) {
      target(weights, nodes, edges, rows, staged, c, warp, p, mine, other);
      const float d = d_logit.at(warp, mine, p, p);
#pragma unroll
      for (int q = 0; q < PART; ++q) sum[q] = fmaf(d, share(row[q], other[q]), sum[q]);
    }
#pragma unroll
    for (int q = 0; q < PART; ++q) sum[q] *= weights.score[q];
    store_aligned(d_first, sum);
    return;
  }

  if (STAGED) {
    StagedEdges<true> of_edges(edges, begin);
    d_logit.stage<true>(begin);
    stage_rows(rows, nodes, FIRST, 0.0f);
    of_edges.store(staged);
  }
  __syncthreads();
  float of_score[PART] = {}, of_directions[P][PART] = {}, of_bias = 0.0f;
#pragma unroll
  for (int q = 0; q < PART; ++q) row[q] += c[q];
#pragma unroll 1
  for (int first = 0; first < (is_node ? N : 0); first += GROUP) {
    float of_edges[CHUNKS][SETS][8];
#pragma unroll
    for (int g = 0; g < GROUP; ++g) {
      const bool valid = N % GROUP == 0 || first + g < N;
      const int i = valid ? first + g : N - 1;
      const float d = valid ? d_logit.at(warp, i, mine, i) : 0.0f;
      of_bias += d;
      float a[PART];
      STAGED ? load_aligned(rows + i * H, a) : load_row(nodes + i * WIDTH + FIRST, a);
      const Scalars scalars(STAGED ? staged + (warp * N + i) * EDGE_ROW : edges + (mine * N + i) * P);
#pragma unroll
      for (int q = 0; q < PART; ++q) other[q] = row[q];
      add_edge(weights, scalars, edges + (mine * N + i) * H, other);
      float gradient[PART];
#pragma unroll
      for (int q = 0; q < PART; ++q) {
        of_score[q] = fmaf(d, fmaxf(a[q], other[q]), of_score[q]);
        gradient[q] = d * weights.score[q] * share(other[q], a[q]);
        sum[q] += gradient[q];
      }
      if (DENSE) {
        if (valid) store_aligned(d_edges + i * H, gradient);
        continue;
      }
#pragma unroll
      for (int s = 0; s < CHUNKS * CHUNK; ++s) {
        float& of_edge = of_edges[s / CHUNK][g * CHUNK / 8][(g * CHUNK + s % CHUNK) % 8];
        of_edge = 0.0f;
        if (s < P)
#pragma unroll
          for (int q = 0; q < PART; ++q) {
            of_edge = fmaf(gradient[q], weights.directions[s][q], of_edge);
            of_directions[s][q] = fmaf(gradient[q], scalars.s[s], of_directions[s][q]);
          }
      }
    }
    if (DENSE) continue;
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; ++chunk)
#pragma unroll
      for (int set = 0; set < SETS; ++set) {
        const float total = sum_over_lanes<8>(of_edges[chunk][set]);
        const int i = first + set * (8 / CHUNK) + lane / CHUNK, s = chunk * CHUNK + lane % CHUNK;
        if (lane < 8 && (N % GROUP == 0 || i < N) && s < P) d_edges[i * P + s] = total;
      }
  }
  // The small gradients are summed over the warps.
  if (is_node) store_aligned(d_second, sum);
  if (STAGED) __syncthreads();
  float *shares = (float*)memory + (STAGED || !SOFTMAX ? 0 : (N + 3) / 4 * 4), *own = shares + warp * SMALL * H;
#pragma unroll
  for (int s = 0; s < P; ++s) store_aligned(own + s * H, of_directions[s]);
  store_aligned(own + P * H, sum);
  store_aligned(own + (P + 1) * H, of_score);
  if (lane == 0) own[(P + 2) * H] = of_bias;
  __syncthreads();
#pragma unroll
  for (int first = 0; first < SMALL * H; first += BLOCK) {
    const int at = first + threadIdx.x;
    float total = 0.0f;
    if (at <= (P + 2) * H)
#pragma unroll
      for (int w = 0; w < NODES; ++w) total += shares[w * SMALL * H + at];
    if (at < SMALL * H) small[at] = total;
  }
}
#endif
