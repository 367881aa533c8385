// From the logits of hints to what a network reads of them at its next step, and the logits of the graph's hints.
//
// A block has a sample, and BLOCK threads. VALUES says, for every hint, its kind, where its logits begin (in a node's
// row of WIDTH floats, or among the graph's), where its values begin in a node's row of SCALARS floats, and how many
// there are; a warp has one hint at a time. The graph's stand in the rows of all nodes, from NODE_SCALARS on. With
// GRAPH logits of the graph, these are a product of what is read there, READ numbers: the maxima over nodes of three
// vectors (encoded features, hidden state, next hidden state), the graph's scalars, and a one. A thread has a feature
// of one of the three.
//
// There is little to compute and much to wait for: with STAGED, all that is read of nodes is asked for at once, and
// comes to shared memory or to registers before anything needs it.

enum Kind { COPY, SCALAR, MASK, MASK_ONE, CATEGORICAL, GRAPH_SCALAR, GRAPH_MASK, GRAPH_CATEGORICAL };

struct Value {
  int kind, source, target, width;
};

#define GRAPH_SCALARS (SCALARS - NODE_SCALARS)
#define READ (3 * H + GRAPH_SCALARS + 1)
#define SMALL_WIDTH (WIDTH - SMALL)
#define BLOCK_WARPS (BLOCK / 32)
#define KEPT (N <= 16)  // whether a thread holds its feature of all nodes
// The lengths of rows, which stand in shared or in global memory.
#define SCALAR_ROW (STAGED ? (SCALARS + 3) / 4 * 4 : SCALARS)
#define LOGIT_ROW (STAGED ? SMALL_WIDTH : WIDTH)

__device__ constexpr Value value_of(int v) {
  constexpr Value values[] = {VALUES};
  return values[v];
}

// Whether there are hints of a kind.
__device__ constexpr bool has(int kind) {
  for (int v = 0; v < NUM_VALUES; ++v)
    if (value_of(v).kind == kind) return true;
  return false;
}

// The numbers of hint `mine`, two in a word. As constants in the code: a table would have to be read.
template <int V>
__device__ __forceinline__ void choose(int mine, u32& what, u32& where) {
  if constexpr (V < NUM_VALUES) {
    constexpr Value value = value_of(V);
    what = V == mine ? value.kind | value.width << 16 : what;
    where = V == mine ? value.source | value.target << 16 : where;
    choose<V + 1>(mine, what, where);
  }
}

// Calls `f` for the hints of this warp. Their numbers are chosen rather than their code, of which there is one copy:
// reading instructions takes time, too.
template <typename F>
__device__ __forceinline__ void for_values(F f) {
#pragma unroll 1
  for (int mine = warp_number(); mine < NUM_VALUES; mine += BLOCK_WARPS) {
    u32 what = 0, where = 0;
    choose<0>(mine, what, where);
    f(Value{(int)(what & 0xffff), (int)(where & 0xffff), (int)(where >> 16), (int)(what >> 16)});
  }
}

// The exponentials' maximum and the inverse of their sum, over all nodes or over classes, which a probability needs.
struct Softmax {
  float highest, inverse;
  __device__ __forceinline__ float operator()(float logit) const { return __expf(logit - highest) * inverse; }
};

__device__ __forceinline__ Softmax over_nodes(const float* logits) {
  const int lane = threadIdx.x % 32;
  float highest = -3.0e38f, total = 0.0f;
#pragma unroll 1
  for (int i = lane; i < N; i += 32) highest = fmaxf(highest, logits[i * LOGIT_ROW]);
  highest = highest_of_lanes(highest);
#pragma unroll 1
  for (int i = lane; i < N; i += 32) total += __expf(logits[i * LOGIT_ROW] - highest);
  return {highest, 1.0f / sum_over_groups<1>(total)};
}

__device__ __forceinline__ Softmax over_classes(const float* logits, int width) {
  float highest = -3.0e38f, total = 0.0f;
#pragma unroll 1
  for (int c = 0; c < width; ++c) highest = fmaxf(highest, logits[c]);
#pragma unroll 1
  for (int c = 0; c < width; ++c) total += __expf(logits[c] - highest);
  return {highest, 1.0f / total};
}

// COUNT columns of ROWS rows on their way from global to shared memory. All that a block needs is asked for before the
// first of it is stored.
template <int ROWS, int COUNT, int FROM_ROW, int TO_ROW>
struct Copy {
  static constexpr int WIDE = COUNT ? COUNT : 1;
  const float* from;
  float first;
  __device__ __forceinline__ Copy(const float* from_) : from(from_) {
    first = threadIdx.x < ROWS * COUNT ? value(threadIdx.x) : 0.0f;
  }
  __device__ __forceinline__ float value(int at) const { return from[at / WIDE * FROM_ROW + at % WIDE]; }
  __device__ __forceinline__ void store(float* to) const {
#pragma unroll 1
    for (int at = threadIdx.x; at < ROWS * COUNT; at += BLOCK)
      to[at / WIDE * TO_ROW + at % WIDE] = at < BLOCK ? first : value(at);
  }
};

// The logits that stand in a node's row from SMALL on, at `source`.
__device__ __forceinline__ const float* logits_at(const float* logits, int source) {
  return logits + source - (STAGED ? SMALL : 0);
}

#if GRAPH
// A thread's feature of one of the three vectors, of every node. What comes from global memory is asked for first.
struct Feature {
  int part, h;
  const float* source;  // hidden states
  float directions[NODE_SCALARS], offset, kept[KEPT ? N : 1];

  __device__ __forceinline__ Feature(
      const float* hidden, const float* next_hidden, const float* all_directions, const float* all_offset) {
    part = threadIdx.x / H;
    h = threadIdx.x % H;
    source = (part == 1 ? hidden : next_hidden) + h;
    if (part == 0) {
      offset = all_offset[h];
#pragma unroll
      for (int p = 0; p < NODE_SCALARS; ++p) directions[p] = all_directions[p * H + h];
    } else if (KEPT) {
#pragma unroll
      for (int i = 0; i < N; ++i) kept[i] = source[i * H];
    }
  }
  // Features that are encoded need the scalars, from shared memory if they are staged.
  __device__ __forceinline__ float encoded(const float* scalars) const {
    float sum = offset;
    if (STAGED) {
#pragma unroll
      for (int first = 0; first < NODE_SCALARS; first += 4) {
        const float4 four = *(const float4*)(scalars + first);
        const float s[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int p = first; p < first + 4 && p < NODE_SCALARS; ++p) sum = fmaf(s[p - first], directions[p], sum);
      }
    } else {
#pragma unroll
      for (int p = 0; p < NODE_SCALARS; ++p) sum = fmaf(scalars[p], directions[p], sum);
    }
    return sum;
  }
  __device__ __forceinline__ void encode(const float* scalars) {
    if (!KEPT || part != 0) return;
#pragma unroll
    for (int i = 0; i < N; ++i) kept[i] = encoded(scalars + i * SCALAR_ROW);
  }
  __device__ __forceinline__ float operator()(int i, const float* scalars) const {
    return KEPT ? kept[i] : part == 0 ? encoded(scalars + i * SCALAR_ROW) : source[i * H];
  }
};

#define FORWARD_ON_GRAPH                                                                                         \
  const float *__restrict__ hidden, const float *__restrict__ next_hidden, const float *__restrict__ directions, \
      const float *__restrict__ offset, const float *__restrict__ weights,
#define ON_GRAPH_RESULTS , float *graph_logits, float *read
#else
#define FORWARD_ON_GRAPH
#define ON_GRAPH_RESULTS
#endif

#if defined(BUILD_readout_forward)
// Shared memory: the scalars and the logits of nodes, if they are staged; the warps' parts of the graph's logits, and
// these.
extern "C" __global__ void __launch_bounds__(BLOCK) readout_forward(
    const float* logits, const float* __restrict__ scalars, FORWARD_ON_GRAPH TIME_PARAMETERS
    float* next ON_GRAPH_RESULTS) {
  const Sample sample(1);
  const int lane = threadIdx.x % 32;
  logits += sample.at(TIMED_logits, NOW) * N * WIDTH;
  scalars += sample.at(TIMED_scalars, NOW) * N * SCALARS;
  next += sample.index * N * SCALARS;
#if GRAPH
  graph_logits += sample.at(TIMED_graph, NOW) * GRAPH;
  read += sample.at(TIMED_read, NOW) * READ;
#endif
  if (HAS_ENDED(sample.index)) {
    write_zeros(next, N * SCALARS, BLOCK);
#if GRAPH
    write_zeros(graph_logits, GRAPH, BLOCK);
    write_zeros(read, READ, BLOCK);
#endif
    return;
  }
#if GRAPH
  hidden += sample.at(TIMED_hidden, NOW) * N * H;
  next_hidden += sample.at(TIMED_next_hidden, NOW) * N * H;
  weights += sample.seed * READ * GRAPH;
  float *staged = (float*)memory, *staged_logits = staged + STAGED * N * SCALAR_ROW;
  float *shares = staged_logits + STAGED * N * SMALL_WIDTH, *of_graph = shares + GRAPH * BLOCK_WARPS;
  Feature feature(hidden, next_hidden, directions + sample.seed * NODE_SCALARS * H, offset + sample.seed * H);
  float weight[GRAPH];
#pragma unroll
  for (int g = 0; g < GRAPH; ++g) weight[g] = weights[threadIdx.x * GRAPH + g];
  if (STAGED) {
    const Copy<N, SCALARS, SCALARS, SCALAR_ROW> of_scalars(scalars);
    const Copy<N, SMALL_WIDTH, WIDTH, SMALL_WIDTH> of_logits(logits + SMALL);
    of_scalars.store(staged);
    of_logits.store(staged_logits);
    scalars = staged;
    logits = staged_logits;
    __syncthreads();
  }
  feature.encode(scalars);
  float best = -3.0e38f;
#pragma unroll 16
  for (int i = 0; i < N; ++i) best = fmaxf(best, feature(i, scalars));
  read[threadIdx.x] = best;
#pragma unroll
  for (int g = 0; g < GRAPH; ++g) {
    const float share = sum_over_groups<1>(best * weight[g]);
    if (lane == 0) shares[g * BLOCK_WARPS + threadIdx.x / 32] = share;
  }
#pragma unroll 1
  for (int r = threadIdx.x; r < GRAPH_SCALARS + 1; r += BLOCK)
    read[3 * H + r] = r < GRAPH_SCALARS ? scalars[NODE_SCALARS + r] : 1.0f;
#endif
  for_values([&](const Value& value) {
    if (value.kind >= GRAPH_SCALAR) return;
    const float* from = logits_at(logits, value.source);
    float* to = next + value.target;
    Softmax softmax{0.0f, 1.0f};
    if (has(MASK_ONE) && value.kind == MASK_ONE) softmax = over_nodes(from);
#pragma unroll 1
    for (int i = lane; i < N; i += 32) {
      if (has(CATEGORICAL) && value.kind == CATEGORICAL) softmax = over_classes(from + i * LOGIT_ROW, value.width);
#pragma unroll 1
      for (int c = 0; c < value.width; ++c) {
        const bool copied = value.kind == COPY;
        float result = copied ? scalars[i * SCALAR_ROW + value.target + c] : from[i * LOGIT_ROW + c];
        if (has(MASK) && value.kind == MASK) result = sigmoid(result);
        if (has(MASK_ONE) || has(CATEGORICAL)) result = value.kind >= MASK_ONE ? softmax(result) : result;
        to[i * SCALARS + c] = result;
      }
    }
  });
#if GRAPH
  __syncthreads();
#pragma unroll 1
  for (int g = threadIdx.x; g < GRAPH; g += BLOCK) {
    float sum = weights[(READ - 1) * GRAPH + g];
#pragma unroll
    for (int s = 0; s < GRAPH_SCALARS; ++s)
      sum = fmaf(scalars[NODE_SCALARS + s], weights[(3 * H + s) * GRAPH + g], sum);
#pragma unroll
    for (int warp = 0; warp < BLOCK_WARPS; ++warp) sum += shares[g * BLOCK_WARPS + warp];
    of_graph[g] = graph_logits[g] = sum;
  }
  __syncthreads();
  for_values([&](const Value& value) {
    if (value.kind < GRAPH_SCALAR) return;
    const float* from = of_graph + value.source;
    Softmax softmax{0.0f, 1.0f};
    if (has(GRAPH_CATEGORICAL) && value.kind == GRAPH_CATEGORICAL) softmax = over_classes(from, value.width);
#pragma unroll 1
    for (int c = 0; c < value.width; ++c) {
      float result = from[c];
      if (has(GRAPH_MASK) && value.kind == GRAPH_MASK) result = sigmoid(result);
      if (has(GRAPH_CATEGORICAL) && value.kind == GRAPH_CATEGORICAL) result = softmax(result);
#pragma unroll 1
      for (int i = lane; i < N; i += 32) next[i * SCALARS + value.target + c] = result;
    }
  });
#endif
}
#endif

#if GRAPH
#define BACKWARD_ON_GRAPH FORWARD_ON_GRAPH const float *graph_logits, const float *d_graph_logits,
#define ON_GRAPH_GRADIENTS , float *d_hidden, float *d_next_hidden, float *d_features, float *d_graph
#else
#define BACKWARD_ON_GRAPH
#define ON_GRAPH_GRADIENTS
#endif

#if defined(BUILD_readout_backward)
#define GIVEN 8  // scalars whose gradients a warp sums at a time

// The gradients of the logits that stand in a node's row from SMALL on, of the scalars, the hidden states and the
// encoded features. The values of a hint are computed again. What is copied has no gradient.
//
// Shared memory, with STAGED: the gradient of encoded features, the scalars, the logits, the cotangents of values, the
// gradients of logits and of scalars, which leave in one go; and the logits of the graph with their cotangents.
extern "C" __global__ void __launch_bounds__(BLOCK) readout_backward(
    const float* logits, const float* __restrict__ scalars, const float* d_next, BACKWARD_ON_GRAPH TIME_PARAMETERS
    float* d_logits, float* d_scalars ON_GRAPH_GRADIENTS) {
  const Sample sample(1);
  const int lane = threadIdx.x % 32;
  d_next += sample.index * N * SCALARS;
  d_logits += sample.index * N * SMALL_WIDTH;
  d_scalars += sample.index * N * SCALARS;
#if GRAPH
  d_hidden += sample.index * N * H;
  d_next_hidden += sample.index * N * H;
  d_features += sample.at(TIMED_features, NOW) * N * H;
  d_graph += sample.at(TIMED_d_graph, NOW) * GRAPH;
#endif
  if (HAS_ENDED(sample.index)) {
    write_zeros(d_logits, N * SMALL_WIDTH, BLOCK);
    write_zeros(d_scalars, N * SCALARS, BLOCK);
#if GRAPH
    write_zeros(d_hidden, N * H, BLOCK);
    write_zeros(d_next_hidden, N * H, BLOCK);
    write_zeros(d_features, N * H, BLOCK);
    write_zeros(d_graph, GRAPH, BLOCK);
#endif
    return;
  }
  logits += sample.at(TIMED_logits, NOW) * N * WIDTH;
  scalars += sample.at(TIMED_scalars, NOW) * N * SCALARS;
  float *to_logits = d_logits, *to_scalars = d_scalars;
#if GRAPH
  hidden += sample.at(TIMED_hidden, NOW) * N * H;
  next_hidden += sample.at(TIMED_next_hidden, NOW) * N * H;
  directions += sample.seed * NODE_SCALARS * H;
  weights += sample.seed * READ * GRAPH;
  graph_logits += sample.at(TIMED_graph, NOW) * GRAPH;
  d_graph_logits += sample.index * GRAPH;
  float *of_features = (float*)memory, *staged = of_features + STAGED * N * H;
  float *staged_logits = staged + STAGED * N * SCALAR_ROW, *staged_next = staged_logits + STAGED * N * SMALL_WIDTH;
  float *made_logits = staged_next + STAGED * N * SCALARS, *made_scalars = made_logits + STAGED * N * SMALL_WIDTH;
  float *of_graph = made_scalars + STAGED * N * SCALARS, *known = of_graph + GRAPH;
  Feature feature(hidden, next_hidden, directions, offset + sample.seed * H);
  float weight[GRAPH];
#pragma unroll
  for (int g = 0; g < GRAPH; ++g) weight[g] = weights[threadIdx.x * GRAPH + g];
  const Copy<1, GRAPH, GRAPH, GRAPH> of_d_graph(d_graph_logits), of_known(graph_logits);
  if (STAGED) {
    const Copy<N, SCALARS, SCALARS, SCALAR_ROW> of_scalars(scalars);
    const Copy<N, SMALL_WIDTH, WIDTH, SMALL_WIDTH> of_logits(logits + SMALL);
    const Copy<N, SCALARS, SCALARS, SCALARS> of_next(d_next);
    of_scalars.store(staged);
    of_logits.store(staged_logits);
    of_next.store(staged_next);
    scalars = staged;
    logits = staged_logits;
    d_next = staged_next;
    to_logits = made_logits;
    to_scalars = made_scalars;
  }
  of_d_graph.store(of_graph);
  of_known.store(known);
#endif
  write_zeros(to_logits, N * SMALL_WIDTH, BLOCK);
  write_zeros(to_scalars, N * SCALARS, BLOCK);
  __syncthreads();
  for_values([&](const Value& value) {
    const float *from = logits_at(logits, value.source), *d = d_next + value.target;
    float* to = to_logits + value.source - SMALL;
#if GRAPH
    if (value.kind >= GRAPH_SCALAR) {  // every node has read it
      const float* of_all = known + value.source;
      const bool classes = has(GRAPH_CATEGORICAL) && value.kind == GRAPH_CATEGORICAL;
      Softmax softmax{0.0f, 1.0f};
      if (classes) softmax = over_classes(of_all, value.width);
      float expected = 0.0f;
#pragma unroll 1
      for (int again = classes ? 0 : 1; again < 2; ++again)
#pragma unroll 1
        for (int c = 0; c < value.width; ++c) {
          float sum = 0.0f;
#pragma unroll 1
          for (int i = lane; i < N; i += 32) sum += d[i * SCALARS + c];
          sum = sum_over_groups<1>(sum);
          if (has(GRAPH_MASK) && value.kind == GRAPH_MASK) {
            const float gate = sigmoid(of_all[c]);
            sum *= gate * (1.0f - gate);
          }
          if (classes) {
            const float probability = softmax(of_all[c]);
            expected = again == 0 ? fmaf(probability, sum, expected) : expected;
            sum = probability * (sum - expected);
          }
          if (again == 1 && lane == 0) of_graph[value.source + c] += sum;
        }
      return;
    }
#endif
    if (value.kind == COPY) return;
    Softmax softmax{0.0f, 1.0f};
    float expected = 0.0f;
    if (has(MASK_ONE) && value.kind == MASK_ONE) {
      softmax = over_nodes(from);
#pragma unroll 1
      for (int i = lane; i < N; i += 32) expected = fmaf(softmax(from[i * LOGIT_ROW]), d[i * SCALARS], expected);
      expected = sum_over_groups<1>(expected);
    }
#pragma unroll 1
    for (int i = lane; i < N; i += 32) {
      if (has(CATEGORICAL) && value.kind == CATEGORICAL) {
        softmax = over_classes(from + i * LOGIT_ROW, value.width);
        expected = 0.0f;
#pragma unroll 1
        for (int c = 0; c < value.width; ++c)
          expected = fmaf(softmax(from[i * LOGIT_ROW + c]), d[i * SCALARS + c], expected);
      }
#pragma unroll 1
      for (int c = 0; c < value.width; ++c) {
        const float logit = from[i * LOGIT_ROW + c];
        float result = d[i * SCALARS + c];
        if (has(MASK) && value.kind == MASK) {
          const float gate = sigmoid(logit);
          result *= gate * (1.0f - gate);
        }
        if (has(MASK_ONE) || has(CATEGORICAL))
          result = value.kind >= MASK_ONE ? softmax(logit) * (result - expected) : result;
        to[i * SMALL_WIDTH + c] = result;
      }
    }
  });
#if GRAPH
  // The gradient of a feature's maximum over nodes: those who are equal share it.
  feature.encode(scalars);
  float best = -3.0e38f, count = 0.0f, d = 0.0f;
#pragma unroll 16
  for (int i = 0; i < N; ++i) {
    const float x = feature(i, scalars);
    count = x > best ? 1.0f : x == best ? count + 1.0f : count;
    best = fmaxf(best, x);
  }
  __syncthreads();
#pragma unroll 1
  for (int g = threadIdx.x; g < GRAPH; g += BLOCK) d_graph[g] = of_graph[g];
#pragma unroll
  for (int g = 0; g < GRAPH; ++g) d = fmaf(weight[g], of_graph[g], d);
  d /= count;
  float* out = (feature.part == 0 ? d_features : feature.part == 1 ? d_hidden : d_next_hidden) + feature.h;
#pragma unroll 16
  for (int i = 0; i < N; ++i) {
    const float share = feature(i, scalars) == best ? d : 0.0f;
    out[i * H] = share;
    if (STAGED && feature.part == 0) of_features[i * H + feature.h] = share;
  }
  __syncthreads();
  if (!STAGED) of_features = d_features;
#define GROUPS ((NODE_SCALARS + GIVEN - 1) / GIVEN)
#pragma unroll 1
  for (int turn = warp_number(); turn < N * GROUPS; turn += BLOCK_WARPS) {
    const int i = turn / GROUPS, first = turn % GROUPS * GIVEN;
    const float4 mine = features(of_features + i * H);
    float sums[GIVEN];
#pragma unroll
    for (int p = 0; p < GIVEN; ++p)
      sums[p] = dot(mine, features(directions + (first + p < NODE_SCALARS ? first + p : 0) * H), 0.0f);
    const float sum = sum_over_lanes<GIVEN>(sums);
    if (lane < GIVEN && first + lane < NODE_SCALARS) to_scalars[i * SCALARS + first + lane] = sum;
  }
#pragma unroll 1
  for (int s = threadIdx.x; s < GRAPH_SCALARS; s += BLOCK) {  // read from the first node's row
    float sum = 0.0f;
#pragma unroll 1
    for (int g = 0; g < GRAPH; ++g) sum = fmaf(weights[(3 * H + s) * GRAPH + g], of_graph[g], sum);
    to_scalars[NODE_SCALARS + s] = sum;
  }
  if (STAGED) {
    __syncthreads();
#pragma unroll 1
    for (int at = threadIdx.x; at < N * SMALL_WIDTH; at += BLOCK) d_logits[at] = to_logits[at];
#pragma unroll 1
    for (int at = threadIdx.x; at < N * SCALARS; at += BLOCK) d_scalars[at] = to_scalars[at];
  }
#endif
}
#endif
