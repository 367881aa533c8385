// The logits of hints of edges that do not point, a_i + b_j + s_ij D + c, and what the next step reads of them.
//
// Compiled for one number of nodes N, of samples SAMPLES, of scalars per edge P and of logits per edge LOGITS. A node's a
// and b stand in a row of WIDTH floats, at FIRST and behind that. VALUES says of each hint its kind, where its logits
// begin and how many there are. With GIVEN something else is added to the logits; where m has FEATURES, a product of L with
// the latents of an edge, ReLU(m_ij O + o). blockIdx.z is the seed.

#define LATENTS (FEATURES > 0)
#define FOURS ((FEATURES + 3) / 4)     // of features; zeros stand behind the last
#define STRIDE (4 * (FOURS | 1))       // numbers per row of O transposed: eight rows lie in different banks
#define SMALL (FEATURES + 1 + LOGITS)  // rows of small gradients: O, o, L

enum Kind { SCALAR, MASK, CATEGORICAL };

struct Value {
  int kind, first, width;
};

// Replaces the logits of an edge by values, or, with `d`, the gradients of values by those of logits.
__device__ __forceinline__ void soften(float (&x)[LOGITS], float* d) {
  const Value values[] = {VALUES};
#pragma unroll
  for (int v = 0; v < NUM_VALUES; ++v) {
    const int first = values[v].first, last = first + values[v].width;
    if (values[v].kind == MASK) {
      x[first] = sigmoid(x[first]);
      if (d) d[first] *= x[first] * (1.0f - x[first]);
    }
    if (values[v].kind == CATEGORICAL) {
      float highest = x[first], total = 0.0f, expected = 0.0f;
      for (int l = first; l < last; ++l) highest = fmaxf(highest, x[l]);
      for (int l = first; l < last; ++l) total += x[l] = __expf(x[l] - highest);
      for (int l = first; l < last; ++l) {
        x[l] /= total;
        if (d) expected = fmaf(x[l], d[l], expected);
      }
      if (d)
        for (int l = first; l < last; ++l) d[l] = x[l] * (d[l] - expected);
    }
  }
}

#if LATENTS
#define OF_LATENTS const float *narrow, const float *out, const float *out_bias, const float *weight,

// The features of an edge, m.
struct Features {
  float4 fours[FOURS];
  __device__ __forceinline__ void load(const float* from) {
#pragma unroll
    for (int k = 0; k < FOURS; ++k) {
#if FEATURES % 4 == 0
      fours[k] = ((const float4*)from)[k];
#else
      float four[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) four[e] = 4 * k + e < FEATURES ? from[4 * k + e] : 0.0f;
      fours[k] = make_float4(four[0], four[1], four[2], four[3]);
#endif
    }
  }
  // Every `step`-th number is one of them.
  __device__ __forceinline__ void store(float* to, int step) const {
#pragma unroll
    for (int k = 0; k < FOURS; ++k) {
      const float four[4] = {fours[k].x, fours[k].y, fours[k].z, fours[k].w};
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (4 * k + e < FEATURES) to[(4 * k + e) * step] = four[e];
    }
  }
  __device__ __forceinline__ float times(const float4* row, float sum) const {
#pragma unroll
    for (int k = 0; k < FOURS; ++k) sum = dot(fours[k], row[k], sum);
    return sum;
  }
  __device__ __forceinline__ void add(float factor, const float4* row) {
#pragma unroll
    for (int k = 0; k < FOURS; ++k) fours[k] = axpy(factor, row[k], fours[k]);
  }
};

// The weights of latents, in shared memory: first O transposed, then o, then L with the logits as rows.
struct Latents {
  const float* shared;
  __device__ __forceinline__ Latents(const float* out, const float* out_bias, const float* weight, int seed) {
    float *to = (float*)memory, *behind = to + H * STRIDE;
    shared = to;
    const int h = threadIdx.x;
    if (h < H) {
      for (int f = 0; f < 4 * FOURS; ++f) to[h * STRIDE + f] = f < FEATURES ? out[(seed * FEATURES + f) * H + h] : 0.0f;
      behind[h] = out_bias[seed * H + h];
      for (int l = 0; l < LOGITS; ++l) behind[(1 + l) * H + h] = weight[(seed * H + h) * LOGITS + l];
    }
    __syncthreads();
  }
  // What features are multiplied by for a latent.
  __device__ __forceinline__ const float4* row(int h) const { return (const float4*)(shared + h * STRIDE); }
  __device__ __forceinline__ float bias(int h) const { return shared[H * STRIDE + h]; }
  __device__ __forceinline__ float weight(int h, int l) const { return shared[H * STRIDE + (1 + l) * H + h]; }
  // The gradient of a latent.
  __device__ __forceinline__ float pull(const float* d, int h) const {
    float sum = 0.0f;
#pragma unroll
    for (int l = 0; l < LOGITS; ++l) sum = fmaf(d[l], weight(h, l), sum);
    return sum;
  }
};
#else
#define OF_LATENTS
#endif

#if defined(BUILD_edge_readout_forward)
extern "C" __global__ void __launch_bounds__(THREADS) edge_readout_forward(
    const float* nodes, const float* edges, const float* directions, const float* offset,
#if GIVEN
    const float* given,
#endif
    OF_LATENTS TIME_PARAMETERS float* logits, float* values) {
  const Sample sample(1);
  const int edge = blockIdx.y * THREADS + threadIdx.x;
#if LATENTS
  const Latents latents(out, out_bias, weight, sample.seed);
#endif
  if (edge >= N * N) return;
  nodes += sample.at(TIMED_nodes, NOW) * N * WIDTH + FIRST;
  edges += (sample.at(TIMED_edges, NOW) * N * N + edge) * P;
  logits += (sample.at(TIMED_logits, NOW) * N * N + edge) * LOGITS;
  values += (sample.index * N * N + edge) * LOGITS;
  float x[LOGITS];
#pragma unroll
  for (int l = 0; l < LOGITS; ++l) {
    x[l] = nodes[edge / N * WIDTH + l] + nodes[edge % N * WIDTH + LOGITS + l] + offset[sample.seed * LOGITS + l];
#if GIVEN
    x[l] += given[(sample.index * N * N + edge) * LOGITS + l];
#endif
    for (int p = 0; p < P; ++p) x[l] = fmaf(edges[p], directions[(sample.seed * P + p) * LOGITS + l], x[l]);
  }
#if LATENTS
  Features m;
  m.load(narrow + (sample.at(TIMED_narrow, NOW) * N * N + edge) * FEATURES);
  for (int h = 0; h < H; ++h) {
    const float latent = fmaxf(m.times(latents.row(h), latents.bias(h)), 0.0f);
#pragma unroll
    for (int l = 0; l < LOGITS; ++l) x[l] = fmaf(latent, latents.weight(h, l), x[l]);
  }
#endif
#pragma unroll
  for (int l = 0; l < LOGITS; ++l) logits[l] = x[l];
  soften(x, nullptr);
#pragma unroll
  for (int l = 0; l < LOGITS; ++l) values[l] = x[l];
}
#endif

#if defined(BUILD_edge_readout_backward)
// A block has a sample: first the gradients of the logits and of the scalars, then sums over edges for both ends.
extern "C" __global__ void __launch_bounds__(2 * THREADS) edge_readout_backward(
    const float* logits, const float* directions, const float* d_logits, const float* d_values,
    OF_LATENTS TIME_PARAMETERS float* d_nodes, float* d_edges, float* d_sums
#if LATENTS
    , float* d_narrow, float* small
#endif
) {
  const Sample sample(1);
#if LATENTS
  const Latents latents(out, out_bias, weight, sample.seed);
  narrow += sample.at(TIMED_narrow, NOW) * N * N * FEATURES;
  d_narrow += sample.index * N * N * FEATURES;
  small += sample.at(TIMED_small, NOW) * 2 * SMALL * H;
#endif
  logits += sample.at(TIMED_logits, NOW) * N * N * LOGITS;
  d_sums += sample.at(TIMED_sums, NOW) * N * N * LOGITS;
  d_logits += sample.index * N * N * LOGITS;
  d_values += sample.index * N * N * LOGITS;
  d_nodes += sample.index * N * 2 * LOGITS;
  d_edges += sample.index * N * N * P;
  if (HAS_ENDED(sample.index)) {
    write_zeros(d_nodes, N * 2 * LOGITS, 2 * THREADS);
    write_zeros(d_edges, N * N * P, 2 * THREADS);
    write_zeros(d_sums, N * N * LOGITS, 2 * THREADS);
#if LATENTS
    write_zeros(d_narrow, N * N * FEATURES, 2 * THREADS);
    write_zeros(small, 2 * SMALL * H, 2 * THREADS);
#endif
    return;
  }
  for (int edge = threadIdx.x; edge < N * N; edge += 2 * THREADS) {
    float x[LOGITS], d[LOGITS];
#pragma unroll
    for (int l = 0; l < LOGITS; ++l) {
      x[l] = logits[edge * LOGITS + l];
      d[l] = d_values[edge * LOGITS + l];
    }
    soften(x, d);
#pragma unroll
    for (int l = 0; l < LOGITS; ++l) {
      d[l] += d_logits[edge * LOGITS + l];
      d_sums[edge * LOGITS + l] = d[l];
    }
    for (int p = 0; p < P; ++p) {
      float sum = 0.0f;
#pragma unroll
      for (int l = 0; l < LOGITS; ++l) sum = fmaf(d[l], directions[(sample.seed * P + p) * LOGITS + l], sum);
      d_edges[edge * P + p] = sum;
    }
#if LATENTS
    Features m, of_m = {};
    m.load(narrow + edge * FEATURES);
    for (int h = 0; h < H; ++h)
      of_m.add(m.times(latents.row(h), latents.bias(h)) > 0.0f ? latents.pull(d, h) : 0.0f, latents.row(h));
    of_m.store(d_narrow + edge * FEATURES, 1);
#endif
  }
  __syncthreads();
#if LATENTS
  {  // A thread has a feature and every other edge.
    const int h = threadIdx.x % H, half = threadIdx.x / H;
    float of_bias = 0.0f, of_weight[LOGITS] = {};
    const float bias = latents.bias(h);
    Features column, of_out = {};
    column.load(latents.shared + h * STRIDE);
#pragma unroll 2
    for (int edge = half; edge < N * N; edge += 2) {
      Features m;
      float d[LOGITS];
      m.load(narrow + edge * FEATURES);
#pragma unroll
      for (int l = 0; l < LOGITS; ++l) d[l] = d_sums[edge * LOGITS + l];
      const float latent = m.times(column.fours, bias), gradient = latent > 0.0f ? latents.pull(d, h) : 0.0f;
      of_bias += gradient;
      of_out.add(gradient, m.fours);
#pragma unroll
      for (int l = 0; l < LOGITS; ++l) of_weight[l] = fmaf(fmaxf(latent, 0.0f), d[l], of_weight[l]);
    }
    small += half * SMALL * H + h;
    of_out.store(small, H);
    small[FEATURES * H] = of_bias;
#pragma unroll
    for (int l = 0; l < LOGITS; ++l) small[(FEATURES + 1 + l) * H] = of_weight[l];
  }
#endif
  for (int k = threadIdx.x; k < N * 2 * LOGITS; k += 2 * THREADS) {
    const int node = k / (2 * LOGITS), receives = k / LOGITS % 2, l = k % LOGITS;
    float sum = 0.0f;
    for (int other = 0; other < N; ++other)
      sum += d_sums[(receives ? other * N + node : node * N + other) * LOGITS + l];
    d_nodes[k] = sum;
  }
}
#endif
