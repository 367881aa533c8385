// From the logits of hints to what a network reads of them at its next step, and the logits of the graph's hints.
//
// A block has a sample. VALUES says, for every hint, its kind, where its logits begin (in a node's row of WIDTH floats, or
// among the graph's), where its values begin in a node's row of SCALARS floats, and how many there are. The graph's
// stand in the rows of all nodes, from NODE_SCALARS on. With GRAPH logits of the graph, these are a product of
// what is read there, READ numbers: the maxima over nodes of three vectors (encoded features, hidden state, next hidden
// state), the graph's scalars, and a one.

enum Kind { COPY, SCALAR, MASK, MASK_ONE, CATEGORICAL, GRAPH_SCALAR, GRAPH_MASK, GRAPH_CATEGORICAL };

struct Value {
  int kind, source, target, width;
};

#define GRAPH_SCALARS (SCALARS - NODE_SCALARS)
#define READ (3 * H + GRAPH_SCALARS + 1)
#define SMALL_WIDTH (WIDTH - SMALL)

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + __expf(-x)); }

__device__ __forceinline__ float highest_of_lanes(float value) {
#pragma unroll
  for (int step = 1; step < 32; step *= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, step));
  return value;
}

// Calls `f` for the hints of this warp.
template <typename F>
__device__ __forceinline__ void for_values(F f) {
  const Value values[] = {VALUES};
#pragma unroll
  for (int v = 0; v < NUM_VALUES; ++v)
    if (v % WARPS == threadIdx.x / 32) f(values[v]);
}

// The exponentials' maximum and sum, over all nodes or over classes, which a probability needs.
struct Softmax {
  float highest, total;
  __device__ __forceinline__ float operator()(float logit) const { return __expf(logit - highest) / total; }
};

__device__ __forceinline__ Softmax over_nodes(const float* logits) {
  const int lane = threadIdx.x % 32;
  Softmax result{-3.0e38f, 0.0f};
  for (int i = lane; i < N; i += 32) result.highest = fmaxf(result.highest, logits[i * WIDTH]);
  result.highest = highest_of_lanes(result.highest);
  for (int i = lane; i < N; i += 32) result.total += __expf(logits[i * WIDTH] - result.highest);
  result.total = sum_over_groups<1>(result.total);
  return result;
}

__device__ __forceinline__ Softmax over_classes(const float* logits, int width) {
  Softmax result{-3.0e38f, 0.0f};
  for (int c = 0; c < width; ++c) result.highest = fmaxf(result.highest, logits[c]);
  for (int c = 0; c < width; ++c) result.total += __expf(logits[c] - result.highest);
  return result;
}

// A node's encoded feature h.
__device__ __forceinline__ float encoded(const float* scalars, const float* directions, const float* offset, int h) {
  float sum = offset[h];
#pragma unroll
  for (int p = 0; p < NODE_SCALARS; ++p) sum = fmaf(scalars[p], directions[p * H + h], sum);
  return sum;
}

#if GRAPH
#define FORWARD_ON_GRAPH                                                                                         \
  const float *__restrict__ hidden, const float *__restrict__ next_hidden, const float *__restrict__ directions, \
      const float *__restrict__ offset, const float *__restrict__ weights,
#define ON_GRAPH_RESULTS , float *graph_logits, float *read
#else
#define FORWARD_ON_GRAPH
#define ON_GRAPH_RESULTS
#endif

#if defined(BUILD_readout_forward)
extern "C" __global__ void __launch_bounds__(THREADS) readout_forward(
    const float* logits, const float* __restrict__ scalars, FORWARD_ON_GRAPH TIME_PARAMETERS
    float* next ON_GRAPH_RESULTS) {
  const int seed = blockIdx.z, sample = blockIdx.x, lane = threadIdx.x % 32;
  const long long index = (long long)seed * SAMPLES + sample;
  logits += index * N * WIDTH;
  scalars += ((long long)row_of(seed, TIMED_scalars, NOW) * SAMPLES + sample) * N * SCALARS;
  next += index * N * SCALARS;
#if GRAPH
  hidden += ((long long)row_of(seed, TIMED_hidden, NOW) * SAMPLES + sample) * N * H;
  next_hidden += ((long long)row_of(seed, TIMED_next_hidden, NOW) * SAMPLES + sample) * N * H;
  directions += seed * NODE_SCALARS * H;
  offset += seed * H;
  weights += seed * READ * GRAPH;
  graph_logits += ((long long)row_of(seed, TIMED_graph, NOW) * SAMPLES + sample) * GRAPH;
  read += ((long long)row_of(seed, TIMED_read, NOW) * SAMPLES + sample) * READ;
#endif
  if (HAS_ENDED(index)) {
    write_zeros(next, N * SCALARS, THREADS);
#if GRAPH
    write_zeros(graph_logits, GRAPH, THREADS);
    write_zeros(read, READ, THREADS);
#endif
    return;
  }
#if GRAPH
  float* vector = (float*)memory;
  float* of_graph = vector + READ;
  for (int h = threadIdx.x; h < H; h += THREADS) {
    float best[3] = {-3.0e38f, -3.0e38f, -3.0e38f};
#pragma unroll 8
    for (int i = 0; i < N; ++i) {
      best[0] = fmaxf(best[0], encoded(scalars + i * SCALARS, directions, offset, h));
      best[1] = fmaxf(best[1], hidden[i * H + h]);
      best[2] = fmaxf(best[2], next_hidden[i * H + h]);
    }
#pragma unroll
    for (int part = 0; part < 3; ++part) vector[part * H + h] = read[part * H + h] = best[part];
  }
  for (int r = threadIdx.x; r < GRAPH_SCALARS + 1; r += THREADS)
    vector[3 * H + r] = read[3 * H + r] = r < GRAPH_SCALARS ? scalars[NODE_SCALARS + r] : 1.0f;
  __syncthreads();
  for (int g = threadIdx.x / 32; g < GRAPH; g += WARPS) {
    float sum = 0.0f;
    for (int r = lane; r < READ; r += 32) sum = fmaf(vector[r], weights[r * GRAPH + g], sum);
    sum = sum_over_groups<1>(sum);
    if (lane == 0) of_graph[g] = graph_logits[g] = sum;
  }
  __syncthreads();
#else
  const float* of_graph = nullptr;
#endif
  for_values([&](const Value& value) {
    const float *from = logits + value.source, *of_all = of_graph + value.source;
    float* to = next + value.target;
    Softmax softmax{0.0f, 1.0f};
    if (value.kind == MASK_ONE) softmax = over_nodes(from);
    if (value.kind == GRAPH_CATEGORICAL) softmax = over_classes(of_all, value.width);
    for (int i = lane; i < N; i += 32) {
      if (value.kind == CATEGORICAL) softmax = over_classes(from + i * WIDTH, value.width);
      for (int c = 0; c < value.width; ++c) {
        float result = 0.0f;
        switch (value.kind) {
          case COPY: result = scalars[i * SCALARS + value.target + c]; break;
          case SCALAR: result = from[i * WIDTH + c]; break;
          case MASK: result = sigmoid(from[i * WIDTH + c]); break;
          case MASK_ONE: case CATEGORICAL: result = softmax(from[i * WIDTH + c]); break;
          case GRAPH_SCALAR: result = of_all[c]; break;
          case GRAPH_MASK: result = sigmoid(of_all[c]); break;
          case GRAPH_CATEGORICAL: result = softmax(of_all[c]); break;
        }
        to[i * SCALARS + c] = result;
      }
    }
  });
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
// The gradient of a feature's maximum over nodes, which one `part` of the weights reads: those who are equal share it.
template <typename F>
__device__ __forceinline__ void share_gradient(
    const float* weights, const float* of_graph, int part, int h, F value, float* out) {
  float best = -3.0e38f, count = 0.0f, d = 0.0f;
#pragma unroll 16
  for (int i = 0; i < N; ++i) {
    const float x = value(i);
    count = x > best ? 1.0f : x == best ? count + 1.0f : count;
    best = fmaxf(best, x);
  }
  for (int g = 0; g < GRAPH; ++g) d = fmaf(weights[(part * H + h) * GRAPH + g], of_graph[g], d);
  d /= count;
#pragma unroll 16
  for (int i = 0; i < N; ++i) out[i * H + h] = value(i) == best ? d : 0.0f;
}

// The gradients of the logits that stand in a node's row from SMALL on, of the scalars, the hidden states and the
// encoded features. The values of a hint are computed again. What is copied has no gradient.
extern "C" __global__ void __launch_bounds__(THREADS) readout_backward(
    const float* logits, const float* __restrict__ scalars, const float* d_next, BACKWARD_ON_GRAPH TIME_PARAMETERS
    float* d_logits, float* d_scalars ON_GRAPH_GRADIENTS) {
  const int seed = blockIdx.z, sample = blockIdx.x, lane = threadIdx.x % 32;
  const long long index = (long long)seed * SAMPLES + sample;
  logits += ((long long)row_of(seed, TIMED_logits, NOW) * SAMPLES + sample) * N * WIDTH;
  scalars += ((long long)row_of(seed, TIMED_scalars, NOW) * SAMPLES + sample) * N * SCALARS;
  d_next += index * N * SCALARS;
  d_logits += index * N * SMALL_WIDTH;
  d_scalars += index * N * SCALARS;
  write_zeros(d_logits, N * SMALL_WIDTH, THREADS);
  write_zeros(d_scalars, N * SCALARS, THREADS);
#if GRAPH
  d_hidden += index * N * H;
  d_next_hidden += index * N * H;
  d_features += ((long long)row_of(seed, TIMED_features, NOW) * SAMPLES + sample) * N * H;
  d_graph += ((long long)row_of(seed, TIMED_d_graph, NOW) * SAMPLES + sample) * GRAPH;
#endif
  if (HAS_ENDED(index)) {
#if GRAPH
    write_zeros(d_hidden, N * H, THREADS);
    write_zeros(d_next_hidden, N * H, THREADS);
    write_zeros(d_features, N * H, THREADS);
    write_zeros(d_graph, GRAPH, THREADS);
#endif
    return;
  }
#if GRAPH
  graph_logits += ((long long)row_of(seed, TIMED_graph, NOW) * SAMPLES + sample) * GRAPH;
  d_graph_logits += index * GRAPH;
  float* of_graph = (float*)memory;
  for (int g = threadIdx.x; g < GRAPH; g += THREADS) of_graph[g] = d_graph_logits[g];
#else
  const float* graph_logits = nullptr;
  float* of_graph = nullptr;
#endif
  __syncthreads();
  for_values([&](const Value& value) {
    const float *from = logits + value.source, *of_all = graph_logits + value.source, *d = d_next + value.target;
    float* to = d_logits + value.source - SMALL;
    if (value.kind >= GRAPH_SCALAR) {  // every node has read it
      const Softmax softmax = value.kind == GRAPH_CATEGORICAL ? over_classes(of_all, value.width) : Softmax{0.0f, 1.0f};
      float expected = 0.0f;
      for (int again = 0; again < 2; ++again)
        for (int c = 0; c < value.width; ++c) {
          float sum = 0.0f;
          for (int i = lane; i < N; i += 32) sum += d[i * SCALARS + c];
          sum = sum_over_groups<1>(sum);
          const float logit = of_all[c], gate = sigmoid(logit), probability = softmax(logit);
          if (value.kind == GRAPH_MASK) sum *= gate * (1.0f - gate);
          if (again == 0) expected = fmaf(probability, sum, expected);
          if (again == 1 && value.kind == GRAPH_CATEGORICAL) sum = probability * (sum - expected);
          if (again == 1 && lane == 0) of_graph[value.source + c] += sum;
        }
      return;
    }
    Softmax softmax{0.0f, 1.0f};
    float expected = 0.0f;
    if (value.kind == MASK_ONE) {
      softmax = over_nodes(from);
      for (int i = lane; i < N; i += 32) expected = fmaf(softmax(from[i * WIDTH]), d[i * SCALARS], expected);
      expected = sum_over_groups<1>(expected);
    }
    for (int i = lane; i < N; i += 32) {
      if (value.kind == CATEGORICAL) {
        softmax = over_classes(from + i * WIDTH, value.width);
        expected = 0.0f;
        for (int c = 0; c < value.width; ++c)
          expected = fmaf(softmax(from[i * WIDTH + c]), d[i * SCALARS + c], expected);
      }
      for (int c = 0; c < value.width; ++c) {
        const float given = d[i * SCALARS + c];
        if (value.kind == SCALAR) to[i * SMALL_WIDTH + c] = given;
        if (value.kind == MASK) {
          const float gate = sigmoid(from[i * WIDTH + c]);
          to[i * SMALL_WIDTH + c] = given * gate * (1.0f - gate);
        }
        if (value.kind == MASK_ONE || value.kind == CATEGORICAL)
          to[i * SMALL_WIDTH + c] = softmax(from[i * WIDTH + c]) * (given - expected);
      }
    }
  });
#if GRAPH
  __syncthreads();
  hidden += ((long long)row_of(seed, TIMED_hidden, NOW) * SAMPLES + sample) * N * H;
  next_hidden += ((long long)row_of(seed, TIMED_next_hidden, NOW) * SAMPLES + sample) * N * H;
  directions += seed * NODE_SCALARS * H;
  offset += seed * H;
  weights += seed * READ * GRAPH;
  for (int g = threadIdx.x; g < GRAPH; g += THREADS) d_graph[g] = of_graph[g];
  for (int h = threadIdx.x; h < H; h += THREADS) {
    const auto feature = [&](int i) { return encoded(scalars + i * SCALARS, directions, offset, h); };
    share_gradient(weights, of_graph, 0, h, feature, d_features);
    share_gradient(weights, of_graph, 1, h, [&](int i) { return hidden[i * H + h]; }, d_hidden);
    share_gradient(weights, of_graph, 2, h, [&](int i) { return next_hidden[i * H + h]; }, d_next_hidden);
  }
  __syncthreads();
#pragma unroll 4
  for (int pair = threadIdx.x / 32; pair < N * NODE_SCALARS; pair += WARPS) {
    const int i = pair / NODE_SCALARS, p = pair % NODE_SCALARS;
    float sum = 0.0f;
#pragma unroll
    for (int h = lane; h < H; h += 32) sum = fmaf(d_features[i * H + h], directions[p * H + h], sum);
    sum = sum_over_groups<1>(sum);
    if (lane == 0) d_scalars[i * SCALARS + p] = sum;
  }
  for (int s = threadIdx.x; s < GRAPH_SCALARS; s += THREADS) {  // read from the first node's row
    float sum = 0.0f;
    for (int g = 0; g < GRAPH; ++g) sum = fmaf(weights[(3 * H + s) * GRAPH + g], of_graph[g], sum);
    d_scalars[NODE_SCALARS + s] = sum;
  }
#endif
}
#endif
