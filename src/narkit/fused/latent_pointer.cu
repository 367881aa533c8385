// How strongly node i points to node p where edges have latents: the forward kernel and its reverse. See latent_pointer.py
// for the formulas.
//
// Compiled for one number of nodes N, of scalars per edge P (at least 1) and of samples SAMPLES. A node's a and b stand
// in a row of WIDTH floats, at FIRST and SECOND. blockIdx.z is the seed. A tile has the edges of TARGETS nodes p and
// SOURCES nodes i (a multiple of 16 in all), row by row as (p, i). Nodes beyond the last are read as the last once more.
// With SOFTMAX, also the softmax over p. Latents are made of FEATURES numbers m per edge, eight at a time.

#define CHUNKS ((FEATURES + 7) / 8)
#define IS_STAGED (FEATURES <= 8)  // whether m stays in shared memory backward; more would leave room for fewer blocks
#define TARGET_BLOCKS ((N + TARGETS - 1) / TARGETS)
#define SOURCE_BLOCKS ((N + SOURCES - 1) / SOURCES)
#define TILES (TARGET_BLOCKS * SOURCE_BLOCKS)
#define ROWS (SOURCES * TARGETS)
#define SOURCES WARPS                           // a warp has a node i where it takes softmaxes
#define SMALL (P + 3 + FEATURES + 1)            // rows of small gradients: D, c, w, the bias in front of zeros, O, o
#define FRAGMENTS (H * H / 2)                   // 32-bit words of a weight
#define WIDE_STRIDE 132                         // float32 elements per row of a product in shared memory

#define MANY_WARPS 8  // of a block, which waits more than it computes
#define MANY_THREADS (32 * MANY_WARPS)
typedef Tiling<ROWS, MANY_WARPS> T;
#define M_TILES T::MT
#define N_TILES T::NT

struct Tile : Sample {
  int first_p, first_i;
  __device__ Tile(int blocks, int target_block, int source_block)
      : Sample(blocks), first_p(target_block * TARGETS), first_i(source_block * SOURCES) {}
  __device__ int p_of(int row) const { return first_p + row / SOURCES; }
  __device__ int i_of(int row) const { return first_i + row % SOURCES; }
  // The edge of a row, counted from 0.
  __device__ int edge(int row) const {
    const int p = p_of(row), i = i_of(row);
    return last(p) * N + last(i);
  }
  __device__ bool has(int row) const { return p_of(row) < N && i_of(row) < N; }
};

// Whether there is a feature of this number: up to a multiple of eight, there are zeros in place of further ones.
__device__ __forceinline__ bool has_feature(int f) { return FEATURES % 8 == 0 || f < FEATURES; }

// The features f and f + 1, where f is even, of an edge.
__device__ __forceinline__ float2 two_features(const float* edge, int f) {
#if FEATURES % 2 == 0
  return has_feature(f) ? *(const float2*)(edge + f) : make_float2(0.0f, 0.0f);
#else
  return make_float2(has_feature(f) ? edge[f] : 0.0f, has_feature(f + 1) ? edge[f + 1] : 0.0f);
#endif
}

// Rows ReLU(m O + o), as bfloat16. Of the 16 columns that the matrix units multiply at a time, 8 features of m are enough:
// they come with both their parts, and so does O in two products, so the sum is nearly that of float32.
__device__ __forceinline__ void make_latents(
    const Tile& tile, const float* narrow, const float* out, const float* out_bias, bf16* latents) {
  const int lane = threadIdx.x % 32, q = lane % 4;
  u32 high[CHUNKS][N_TILES], low[CHUNKS][N_TILES];
  float2 start[N_TILES];
#pragma unroll
  for (int n = 0; n < N_TILES; ++n) {
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
      const int f = 8 * chunk + 2 * q;
      const float* column = out + f * H + T::column(n) - 2 * q + lane / 4;
      const float first = has_feature(f) ? column[0] : 0.0f, second = has_feature(f + 1) ? column[H] : 0.0f;
      Split(first, second).to(high[chunk][n], low[chunk][n]);
    }
    start[n] = *(const float2*)(out_bias + T::column(n));
  }
#pragma unroll
  for (int m = 0; m < M_TILES; ++m) {
    float c[N_TILES][4];
#pragma unroll
    for (int n = 0; n < N_TILES; ++n) c[n][0] = c[n][2] = start[n].x, c[n][1] = c[n][3] = start[n].y;
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
      u32 a[4];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float2 two = two_features(narrow + tile.edge(T::row(m) + 8 * half) * FEATURES, 8 * chunk + 2 * q);
        Split(two.x, two.y).to(a[half], a[2 + half]);
      }
#pragma unroll
      for (int n = 0; n < N_TILES; ++n) {
        multiply_accumulate(c[n], a, low[chunk][n], low[chunk][n]);
        multiply_accumulate(c[n], a, high[chunk][n], high[chunk][n]);
      }
    }
#pragma unroll
    for (int n = 0; n < N_TILES; ++n) {
      store_pair(latents, T::row(m), T::column(n), fmaxf(c[n][0], 0.0f), fmaxf(c[n][1], 0.0f));
      store_pair(latents, T::row(m) + 8, T::column(n), fmaxf(c[n][2], 0.0f), fmaxf(c[n][3], 0.0f));
    }
  }
}

// COUNT numbers per edge of the tile, asked for when this is made, and stored later.
template <int COUNT>
struct StagedEdges {
  static constexpr int TURNS = (ROWS * COUNT + MANY_THREADS - 1) / MANY_THREADS;
  float values[TURNS];
  __device__ __forceinline__ StagedEdges(const Tile& tile, const float* from) {
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
      const int at = turn * MANY_THREADS + threadIdx.x;
      values[turn] = at < ROWS * COUNT ? from[tile.edge(at / COUNT) * COUNT + at % COUNT] : 0.0f;
    }
  }
  __device__ __forceinline__ void store(float* to) const {
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
      const int at = turn * MANY_THREADS + threadIdx.x;
      if (at < ROWS * COUNT) to[at] = values[turn];
    }
  }
};

#if defined(BUILD_latent_pointer_forward)
// A block has SOURCES nodes i and walks over all p. All rows that a lane holds of a product have the same i.
//
// Shared memory: the latents; the sums of each warp's columns; the scalars of edges; and all logits of these i.
extern "C" __global__ void __launch_bounds__(MANY_THREADS, 3) latent_pointer_forward(
    const float* nodes, const float* edges, const float* narrow, const float* directions, const float* offset,
    const float* out, const float* out_bias, const u32* weight, const float* score, const float* bias,
    TIME_PARAMETERS float* logits
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
  bf16* latents = (bf16*)memory;
  float *shares = (float*)(latents + ROWS * TILE_STRIDE), *scalars = shares + ROWS * T::N_WARPS;
  float* of_sources = scalars + ROWS * P;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  Tile tile(SOURCE_BLOCKS, 0, blockIdx.x % SOURCE_BLOCKS);
  const int seed = tile.seed, my_i = last(tile.i_of(T::row(0)));
  nodes += tile.at(TIMED_nodes, NOW) * N * WIDTH;
  edges += tile.at(TIMED_edges, NOW) * N * N * P;
  logits += tile.at(TIMED_logits, NOW) * N * N;
  narrow += tile.at(TIMED_narrow, NOW) * N * N * FEATURES;
  if (HAS_ENDED(tile.index)) {
    const int count = min(N - tile.first_i, SOURCES) * N;
    write_zeros(logits + tile.first_i * N, count, MANY_THREADS);
    if (SOFTMAX)
      write_zeros(probabilities + (tile.at(TIMED_probabilities, NOW) * N + tile.first_i) * N, count, MANY_THREADS);
    if (TIMED_probabilities) write_zeros(copy + (tile.index * N + tile.first_i) * N, count, MANY_THREADS);
    return;
  }
  directions += seed * P * H;
  offset += seed * H;
  score += seed * H;
#pragma unroll 1
  for (; tile.first_p < N; tile.first_p += TARGETS) {
    const StagedEdges<P> of_scalars(tile, edges);
    T::Weights weights(weight + seed * FRAGMENTS);
    make_latents(tile, narrow, out + seed * FEATURES * H, out_bias + seed * H, latents);
    of_scalars.store(scalars);
    T::Sums sums;
    T::for_pairs(sums, [&](int row, int column, float* v, int) {
      const float* b = nodes + last(tile.p_of(row)) * WIDTH + SECOND + column;
      const float2 c = *(const float2*)(offset + column);
      v[0] = b[0] + c.x, v[1] = b[1] + c.y;
    });
    __syncthreads();
    T::multiply(sums, latents, weights);
#pragma unroll
    for (int p = 0; p < P; ++p)
      T::for_pairs(sums, [&](int row, int column, float* v, int) {
        const float2 d = *(const float2*)(directions + p * H + column);
        const float s = scalars[row * P + p];
        v[0] = fmaf(s, d.x, v[0]), v[1] = fmaf(s, d.y, v[1]);
      });
    const float added = bias[seed];
    float totals[2 * M_TILES] = {};
    T::for_pairs(sums, [&](int, int column, float* v, int pair) {
      const float2 w = *(const float2*)(score + column);
      const float* a = nodes + my_i * WIDTH + FIRST + column;
      float& total = totals[pair / (2 * N_TILES) * 2 + pair % 2];
      total = fmaf(w.x, fmaxf(a[0], v[0]), fmaf(w.y, fmaxf(a[1], v[1]), total));
    });
#pragma unroll
    for (int row = 0; row < 2 * M_TILES; row += 2) {
      float two[2] = {totals[row], totals[row + 1]};
      const float total = sum_over_some_lanes<2, 1, 4>(two);
      if (lane % 4 < 2) shares[(T::row(row / 2) + 8 * (lane % 2)) * T::N_WARPS + T::n_warp()] = total;
    }
    __syncthreads();
    const int row = threadIdx.x;
    if (row < ROWS) {
      float logit = added;
#pragma unroll
      for (int w = 0; w < T::N_WARPS; ++w) logit += shares[row * T::N_WARPS + w];
      if (tile.has(row)) {
        logits[tile.i_of(row) * N + tile.p_of(row)] = logit;
        of_sources[row % SOURCES * N + tile.p_of(row)] = logit;
      }
    }
  }
#if SOFTMAX
  __syncthreads();
  const int i = tile.first_i + warp;
  if (warp >= SOURCES || i >= N) return;
  const float* mine = of_sources + warp * N;
  float highest = -3.0e38f, total = 0.0f;
  for (int p = lane; p < N; p += 32) highest = fmaxf(highest, mine[p]);
  highest = highest_of_lanes(highest);
  for (int p = lane; p < N; p += 32) total += __expf(mine[p] - highest);
  total = sum_over_groups<1>(total);
  probabilities += (tile.at(TIMED_probabilities, NOW) * N + i) * N;
  copy += (tile.index * N + i) * N;
  for (int p = lane; p < N; p += 32) {
    const float probability = __expf(mine[p] - highest) / total;
    probabilities[p] = probability;
    if (TIMED_probabilities) copy[p] = probability;
  }
#endif
}
#endif

#if defined(BUILD_latent_pointer_backward)
#define PARTS 2  // threads that share a feature, each with some of the targets
#define OWN (TARGETS / PARTS)
#define OUT_TILES (H / 8 / MANY_WARPS)

// Calls `f(row, c, sum)` with the inner product of each row of a tile with each of COUNT vectors.
template <int COUNT, typename F>
__device__ __forceinline__ void inner_products(const bf16* tile, const float* vectors, F f) {
  constexpr int M_COUNT = ROWS / 16, UNITS = M_COUNT * ((COUNT + 7) / 8);
  const int lane = threadIdx.x % 32, q = lane % 4;
#pragma unroll 1
  for (int unit = threadIdx.x / 32; unit < UNITS; unit += MANY_WARPS) {
    const int m = unit % M_COUNT, first = unit / M_COUNT * 8, mine = first + lane / 4;
    float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int k = 0; k < H / 16; ++k) {
      const float2* vector = (const float2*)(vectors + (mine < COUNT ? mine : 0) * H + 16 * k + 2 * q);
      u32 high[2], low[2];
      Split(vector[0].x, vector[0].y).to(high[0], low[0]);
      Split(vector[4].x, vector[4].y).to(high[1], low[1]);
      u32 a[4];
      load_matrices(a, tile + (16 * m + lane % 16) * TILE_STRIDE + 16 * k + 8 * (lane / 16));
      multiply_accumulate(c, a, low[0], low[1]);
      multiply_accumulate(c, a, high[0], high[1]);
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int column = first + 2 * q + e % 2;
      if (column < COUNT) f(16 * m + lane / 4 + e / 2 * 8, column, c[e]);
    }
  }
}

// Shared memory: the latents, and later their cotangents; the cotangents of `latents L`; the product itself, and later
// sums over targets; per row the scalars, m if there is room for it, and the cotangent of the logit.
//
// Writes the operands of L's gradient, the gradients of a (per block of targets), of b (per block of sources), of the
// scalars and of m, and per tile the small gradients D, c, w, bias, O, o.
extern "C" __global__ void __launch_bounds__(MANY_THREADS, 3) latent_pointer_backward(
    const float* nodes, const float* edges, const float* narrow, const float* directions, const float* offset,
    const float* out, const float* out_bias, const u32* weight, const u32* transposed, const float* score,
    const float* d_logits,
#if SOFTMAX
    const float* probabilities, const float* d_probabilities,
#endif
    TIME_PARAMETERS bf16* operand, bf16* cotangent, float* d_first, float* d_second,
    float* d_edges, float* d_narrow, float* small) {
  bf16 *latents = (bf16*)memory, *rounded = latents + ROWS * TILE_STRIDE;
  float *scalars = (float*)(rounded + ROWS * TILE_STRIDE), *staged = scalars + ROWS * P;
  float *of_logits = staged + ROWS * FEATURES * IS_STAGED, *wide = of_logits + ROWS;
  const int number = blockIdx.x % TILES;
  const Tile tile(TILES, number / SOURCE_BLOCKS, number % SOURCE_BLOCKS);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, h = threadIdx.x % H, seed = tile.seed;
  nodes += tile.at(TIMED_nodes, NOW) * N * WIDTH;
  edges += tile.at(TIMED_edges, NOW) * N * N * P;
  narrow += tile.at(TIMED_narrow, NOW) * N * N * FEATURES;
  directions += seed * P * H;
  out += seed * FEATURES * H;
  d_logits += tile.at(TIMED_logits, NOW) * N * N;
  const long long place = (tile.at(TIMED_operands, NOW) * TILES + number) * ROWS * H;
  d_first += (tile.index * TARGET_BLOCKS + number / SOURCE_BLOCKS) * N * H;
  d_second += (tile.index * SOURCE_BLOCKS + number % SOURCE_BLOCKS) * N * H;
  d_edges += tile.index * N * N * P;
  d_narrow += tile.index * N * N * FEATURES;
  small += (tile.at(TIMED_small, NOW) * TILES + number) * SMALL * H;

  if (HAS_ENDED(tile.index)) {
    const int sources = min(N - tile.first_i, SOURCES), targets = min(N - tile.first_p, TARGETS);
    write_zeros((uint4*)(operand + place), ROWS * H / 8, MANY_THREADS);
    write_zeros((uint4*)(cotangent + place), ROWS * H / 8, MANY_THREADS);
    write_zeros(d_first + tile.first_i * H, sources * H, MANY_THREADS);
    write_zeros(d_second + tile.first_p * H, targets * H, MANY_THREADS);
    write_zeros(small, SMALL * H, MANY_THREADS);
    for (int row = threadIdx.x; row < ROWS; row += MANY_THREADS) {
      if (!tile.has(row)) continue;
      for (int p = 0; p < P; ++p) d_edges[tile.edge(row) * P + p] = 0.0f;
      for (int f = 0; f < FEATURES; ++f) d_narrow[tile.edge(row) * FEATURES + f] = 0.0f;
    }
    return;
  }
  const StagedEdges<P> of_scalars(tile, edges);
#if IS_STAGED
  const StagedEdges<FEATURES> of_narrow(tile, narrow);
#endif
  // The gradients of logits: a warp has a source (some have one that others have, too), and a lane a target.
  const int source = warp % SOURCES, i = last(tile.first_i + source), at = i * N + last(tile.first_p + lane);
  float d_logit = d_logits[at];
#if SOFTMAX
  // That of the logit itself, and p (d_p - sum of p d_p) through the softmax.
  probabilities += tile.at(TIMED_probabilities, NOW) * N * N;
  d_probabilities += tile.index * N * N;
  const float probability = probabilities[at], given = d_probabilities[at];
  float expected = 0.0f;
#pragma unroll 1
  for (int p = lane; p < N; p += 32) expected = fmaf(probabilities[i * N + p], d_probabilities[i * N + p], expected);
#endif
  T::Weights weights(weight + seed * FRAGMENTS);
  make_latents(tile, narrow, out, out_bias + seed * H, latents);
#if SOFTMAX
  d_logit = fmaf(probability, given - sum_over_groups<1>(expected), d_logit);
#endif
  const int mine = lane * SOURCES + source;
  if (warp < SOURCES && lane < TARGETS) of_logits[mine] = tile.has(mine) ? d_logit : 0.0f;
  of_scalars.store(scalars);
#if IS_STAGED
  of_narrow.store(staged);
#endif
  __syncthreads();
  T::copy_out(operand + place, latents);
  T::Sums sums;
  T::clear(sums);
  T::multiply(sums, latents, weights);
  T::for_pairs(sums, [&](int row, int column, float* v, int) {
    *(float2*)(wide + row * WIDE_STRIDE + column) = make_float2(v[0], v[1]);
  });
  // A thread has a feature, and sums over the rows of some targets.
  const int part = threadIdx.x / H, begin = part * OWN;
  const float w = score[seed * H + h], c = offset[seed * H + h];
  float start[OWN], a[SOURCES], d[P];
#pragma unroll
  for (int j = 0; j < OWN; ++j) start[j] = nodes[last(tile.first_p + begin + j) * WIDTH + SECOND + h];
#pragma unroll
  for (int i = 0; i < SOURCES; ++i) a[i] = nodes[last(tile.first_i + i) * WIDTH + FIRST + h];
#pragma unroll
  for (int p = 0; p < P; ++p) d[p] = directions[p * H + h];
  __syncthreads();

  float of_directions[P] = {}, to_first[SOURCES] = {}, of_offset = 0.0f, of_score = 0.0f;
#pragma unroll
  for (int j = 0; j < OWN; ++j) {
    float to_second = 0.0f;
    start[j] += c;
#pragma unroll
    for (int i = 0; i < SOURCES; ++i) {
      const int row = (begin + j) * SOURCES + i;
      const float of_logit = of_logits[row];
      float t = wide[row * WIDE_STRIDE + h] + start[j];
#pragma unroll
      for (int p = 0; p < P; ++p) t = fmaf(scalars[row * P + p], d[p], t);
      of_score = fmaf(of_logit, fmaxf(a[i], t), of_score);
      const float both = of_logit * w, gradient = both * share(t, a[i]);
      to_first[i] += both - gradient;
      to_second += gradient;
#pragma unroll
      for (int p = 0; p < P; ++p) of_directions[p] = fmaf(scalars[row * P + p], gradient, of_directions[p]);
      rounded[row * TILE_STRIDE + h] = (bf16)(pack(gradient, 0.0f) & 0xffffu);
    }
    of_offset += to_second;
    if (tile.first_p + begin + j < N) d_second[(tile.first_p + begin + j) * H + h] = to_second;
  }
  // The sums of the second part, where the product was that nobody else has read.
  float* rest = wide + ROWS / PARTS * WIDE_STRIDE + h;
  if (part == 1) {
#pragma unroll
    for (int i = 0; i < SOURCES; ++i) rest[i * WIDE_STRIDE] = to_first[i];
#pragma unroll
    for (int p = 0; p < P; ++p) rest[(SOURCES + p) * WIDE_STRIDE] = of_directions[p];
    rest[(SOURCES + P) * WIDE_STRIDE] = of_offset;
    rest[(SOURCES + P + 1) * WIDE_STRIDE] = of_score;
  }
  __syncthreads();
  weights.start(transposed + seed * FRAGMENTS);
  if (part == 0) {
#pragma unroll
    for (int i = 0; i < SOURCES; ++i)
      if (tile.first_i + i < N) d_first[(tile.first_i + i) * H + h] = to_first[i] + rest[i * WIDE_STRIDE];
#pragma unroll
    for (int p = 0; p < P; ++p) small[p * H + h] = of_directions[p] + rest[(SOURCES + p) * WIDE_STRIDE];
    small[P * H + h] = of_offset + rest[(SOURCES + P) * WIDE_STRIDE];
    small[(P + 1) * H + h] = of_score + rest[(SOURCES + P + 1) * WIDE_STRIDE];
  } else {
    float of_bias = 0.0f;
    for (int row = lane; row < ROWS; row += 32) of_bias += of_logits[row];
    of_bias = sum_over_groups<1>(of_bias);
    small[(P + 2) * H + h] = h == 0 ? of_bias : 0.0f;
  }
  T::copy_out(cotangent + place, rounded);
  inner_products<P>(rounded, directions, [&](int row, int p, float sum) {
    if (tile.has(row)) d_edges[tile.edge(row) * P + p] = sum;
  });
  T::clear(sums);
  T::multiply(sums, rounded, weights);
  T::for_pairs(sums, [&](int row, int column, float* v, int) {
    const float2 latent = unpack_pair(*(const u32*)(latents + row * TILE_STRIDE + column));
    store_pair(latents, row, column, latent.x > 0.0f ? v[0] : 0.0f, latent.y > 0.0f ? v[1] : 0.0f);
  });
  __syncthreads();
  inner_products<FEATURES>(latents, out, [&](int row, int f, float sum) {
    if (tile.has(row)) d_narrow[tile.edge(row) * FEATURES + f] = sum;
  });

  // The gradients of O and o: sums over the rows of m, in both its parts, and of ones.
  const int q = lane % 4;
  auto feature = [&](int row, int f) {
    if (!has_feature(f)) return 0.0f;
#if IS_STAGED
    return staged[row * FEATURES + f];
#else
    return narrow[tile.edge(row) * FEATURES + f];
#endif
  };
  const u32 ones[4] = {0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u};
  u32 b[ROWS / 16][OUT_TILES][2];
  float of_out_bias[OUT_TILES][4] = {};
  small += (P + 3) * H;
#pragma unroll
  for (int n = 0; n < OUT_TILES; ++n) {
#pragma unroll
    for (int k = 0; k < ROWS / 16; ++k) {
      const bf16* column = latents + (16 * k + 2 * q) * TILE_STRIDE + 8 * (warp * OUT_TILES + n) + lane / 4;
      b[k][n][0] = column[0] | (u32)column[TILE_STRIDE] << 16;
      b[k][n][1] = column[8 * TILE_STRIDE] | (u32)column[9 * TILE_STRIDE] << 16;
      multiply_accumulate(of_out_bias[n], ones, b[k][n][0], b[k][n][1]);
    }
    float* to = small + FEATURES * H + 8 * (warp * OUT_TILES + n) + 2 * q;
    if (lane < 4) *(float2*)to = make_float2(of_out_bias[n][0], of_out_bias[n][1]);
  }
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; ++chunk) {
    const int f = 8 * chunk + lane / 4;
    float of_out[OUT_TILES][4] = {};
#pragma unroll
    for (int k = 0; k < ROWS / 16; ++k) {
      const int row = 16 * k + 2 * q;
      u32 a[4];
      Split(feature(row, f), feature(row + 1, f)).to(a[0], a[1]);
      Split(feature(row + 8, f), feature(row + 9, f)).to(a[2], a[3]);
#pragma unroll
      for (int n = 0; n < OUT_TILES; ++n) multiply_accumulate(of_out[n], a, b[k][n][0], b[k][n][1]);
    }
#pragma unroll
    for (int n = 0; n < OUT_TILES; ++n) {
      float* to = small + f * H + 8 * (warp * OUT_TILES + n) + 2 * q;
      if (has_feature(f)) *(float2*)to = make_float2(of_out[n][0] + of_out[n][2], of_out[n][1] + of_out[n][3]);
    }
  }
}
#endif
