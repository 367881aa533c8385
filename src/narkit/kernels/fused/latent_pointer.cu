// How strongly node i points to node p where edges have latents: the forward kernel and its reverse. See latent_pointer.py
// for the formulas.
//
// Compiled for one number of nodes N, of scalars per edge P (at least 1) and of samples SAMPLES. A node's a and b stand
// in a row of WIDTH floats, at FIRST and SECOND. blockIdx.z is the seed. A tile has the edges of TARGETS nodes p and
// SOURCES nodes i (a multiple of 16 in all), row by row as (p, i). Nodes beyond the last are read as the last once more.

#define FEATURES 8  // of a triplet
#define TARGET_BLOCKS ((N + TARGETS - 1) / TARGETS)
#define SOURCE_BLOCKS ((N + SOURCES - 1) / SOURCES)
#define TILES (TARGET_BLOCKS * SOURCE_BLOCKS)
#define ROWS (SOURCES * TARGETS)
#define M_TILES (ROWS / 16)
#define N_TILES (H / 8 / WARPS)
#define OWN_ROWS (ROWS / WARPS)                 // rows of a tile that a warp has
#define GROUP (OWN_ROWS < 8 ? OWN_ROWS : 8)     // of these, summed over features at a time
#define PART (H / 32)                           // features per lane: l, l + 32, ..., as rows of nodes are not aligned
#define SMALL (P + 3 + FEATURES + 1)            // rows of small gradients: D, c, w, the bias in front of zeros, O, o
#define FRAGMENTS (H * H / 2)                   // 32-bit words of a weight

#ifndef TIMED_maxima
#define TIMED_maxima 0
#endif
#ifndef TIMED_operands
#define TIMED_operands 0
#endif
#ifndef TIMED_small
#define TIMED_small 0
#endif

struct Tile {
  int seed, sample, number, first_p, first_i;
  long long index;  // of the sample, over all seeds
  __device__ Tile() {
    seed = blockIdx.z;
    sample = blockIdx.x / TILES;
    number = blockIdx.x % TILES;
    first_p = number / SOURCE_BLOCKS * TARGETS;
    first_i = number % SOURCE_BLOCKS * SOURCES;
    index = (long long)seed * SAMPLES + sample;
  }
  // The index of the sample in an array that may be a stack over time.
  __device__ long long at(bool timed, int now) const { return (long long)row_of(seed, timed, now) * SAMPLES + sample; }
  __device__ int p_of(int row) const { return first_p + row / SOURCES; }
  __device__ int i_of(int row) const { return first_i + row % SOURCES; }
  // The edge of a row, counted from 0.
  __device__ int edge(int row) const {
    const int p = p_of(row), i = i_of(row);
    return (p < N ? p : N - 1) * N + (i < N ? i : N - 1);
  }
  __device__ bool has(int row) const { return p_of(row) < N && i_of(row) < N; }
};

__device__ __forceinline__ int last(int node) { return node < N ? node : N - 1; }

// Rows ReLU(m O + o), as bfloat16; a warp makes every fourth.
__device__ __forceinline__ void make_latents(
    const Tile& tile, const float* maxima, const float* out, const float* out_bias, bf16* latents) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float4 directions[FEATURES];
#pragma unroll
  for (int f = 0; f < FEATURES; ++f) directions[f] = features(out + f * H);
  const float4 start = features(out_bias);
#pragma unroll 4
  for (int row = warp; row < ROWS; row += WARPS) {
    const float4* m = (const float4*)(maxima + tile.edge(row) * FEATURES);
    const float4 low = m[0], high = m[1];
    float4 sum = axpy(low.x, directions[0], start);
    sum = axpy(low.y, directions[1], sum);
    sum = axpy(low.z, directions[2], sum);
    sum = axpy(low.w, directions[3], sum);
    sum = axpy(high.x, directions[4], sum);
    sum = axpy(high.y, directions[5], sum);
    sum = axpy(high.z, directions[6], sum);
    sum = axpy(high.w, directions[7], sum);
    *(uint2*)(latents + row * TILE_STRIDE + 4 * lane) =
        make_uint2(pack(fmaxf(sum.x, 0.0f), fmaxf(sum.y, 0.0f)), pack(fmaxf(sum.z, 0.0f), fmaxf(sum.w, 0.0f)));
  }
}

// latents L, as float32.
__device__ __forceinline__ void product_to(float* wide, const bf16* latents, const u32* weight) {
  float acc[M_TILES][N_TILES][4];
  clear(acc);
  multiply(acc, latents, weight);
  for_pairs(acc, [&](int row, int column, float* v) {
    *(float2*)(wide + row * WIDE_STRIDE + column) = make_float2(v[0], v[1]);
  });
}

#if defined(BUILD_latent_pointer_forward)
// Shared memory: the latents, and their product with L.
extern "C" __global__ void __launch_bounds__(THREADS) latent_pointer_forward(
    const float* nodes, const float* edges, const float* maxima, const float* directions, const float* offset,
    const float* out, const float* out_bias, const u32* weight, const float* score, const float* bias,
    TIME_PARAMETERS float* logits) {
  bf16* latents = (bf16*)memory;
  float* wide = (float*)(latents + ROWS * TILE_STRIDE);
  const Tile tile;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, seed = tile.seed;
  nodes += tile.index * N * WIDTH;
  edges += tile.index * N * N * P;
  logits += tile.index * N * N;
  maxima += tile.at(TIMED_maxima, NOW) * N * N * FEATURES;
  make_latents(tile, maxima, out + seed * FEATURES * H, out_bias + seed * H, latents);
  __syncthreads();
  product_to(wide, latents, weight + seed * FRAGMENTS);
  float w[PART], c[PART], d[P][PART];
#pragma unroll
  for (int q = 0; q < PART; ++q) {
    const int h = 32 * q + lane;
    w[q] = score[seed * H + h];
    c[q] = offset[seed * H + h];
#pragma unroll
    for (int p = 0; p < P; ++p) d[p][q] = directions[(seed * P + p) * H + h];
  }
  __syncthreads();
#pragma unroll 1
  for (int first = warp * OWN_ROWS; first < (warp + 1) * OWN_ROWS; first += GROUP) {
    float sums[GROUP];
#pragma unroll
    for (int g = 0; g < GROUP; ++g) {
      const int row = first + g;
      const float* a = nodes + last(tile.i_of(row)) * WIDTH + FIRST + lane;
      const float* b = nodes + last(tile.p_of(row)) * WIDTH + SECOND + lane;
      const float* s = edges + tile.edge(row) * P;
      float t[PART];
#pragma unroll
      for (int q = 0; q < PART; ++q) t[q] = wide[row * WIDE_STRIDE + 32 * q + lane] + (b[32 * q] + c[q]);
#pragma unroll
      for (int p = 0; p < P; ++p) {
        const float scalar = s[p];
#pragma unroll
        for (int q = 0; q < PART; ++q) t[q] = fmaf(scalar, d[p][q], t[q]);
      }
      sums[g] = 0.0f;
#pragma unroll
      for (int q = 0; q < PART; ++q) sums[g] = fmaf(w[q], fmaxf(a[32 * q], t[q]), sums[g]);
    }
    const float logit = sum_over_lanes<GROUP>(sums);
    const int row = first + lane;
    if (lane < GROUP && tile.has(row)) logits[tile.i_of(row) * N + tile.p_of(row)] = logit + bias[seed];
  }
}
#endif

#if defined(BUILD_latent_pointer_backward)
// Shared memory: the latents, the cotangents of `latents L` as bfloat16 and, where its product was, as float32; later the
// cotangents of the latents; and per row the scalars, the maxima and the cotangent of the logit.
//
// Writes the operands of L's gradient, the gradients of a (per block of targets), of b (per block of sources), of the
// scalars and of the maxima, and per tile the small gradients D, c, w, bias, O, o.
extern "C" __global__ void __launch_bounds__(THREADS, 3) latent_pointer_backward(
    const float* nodes, const float* edges, const float* maxima, const float* directions, const float* offset,
    const float* out, const float* out_bias, const u32* weight, const u32* transposed, const float* score,
    const float* d_logits, TIME_PARAMETERS bf16* operand, bf16* cotangent, float* d_first, float* d_second,
    float* d_edges, float* d_maxima, float* small) {
  bf16 *latents = (bf16*)memory, *rounded = latents + ROWS * TILE_STRIDE;
  float* wide = (float*)(rounded + ROWS * TILE_STRIDE);
  float *scalars = wide + ROWS * WIDE_STRIDE, *narrow = scalars + ROWS * P, *of_logits = narrow + ROWS * FEATURES;
  const Tile tile;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, h = threadIdx.x, seed = tile.seed;
  nodes += tile.index * N * WIDTH;
  edges += tile.index * N * N * P;
  maxima += tile.at(TIMED_maxima, NOW) * N * N * FEATURES;
  directions += seed * P * H;
  out += seed * FEATURES * H;
  d_logits += tile.index * N * N;
  const long long place = (tile.at(TIMED_operands, NOW) * TILES + tile.number) * ROWS * H;
  d_first += (tile.index * TARGET_BLOCKS + tile.number / SOURCE_BLOCKS) * N * H;
  d_second += (tile.index * SOURCE_BLOCKS + tile.number % SOURCE_BLOCKS) * N * H;
  d_edges += tile.index * N * N * P;
  d_maxima += tile.index * N * N * FEATURES;
  small += (tile.at(TIMED_small, NOW) * TILES + tile.number) * SMALL * H;

  for (int at = threadIdx.x; at < ROWS * P; at += THREADS) scalars[at] = edges[tile.edge(at / P) * P + at % P];
  for (int at = threadIdx.x; at < ROWS * FEATURES; at += THREADS)
    narrow[at] = maxima[tile.edge(at / FEATURES) * FEATURES + at % FEATURES];
  for (int row = threadIdx.x; row < ROWS; row += THREADS)
    of_logits[row] = tile.has(row) ? d_logits[tile.i_of(row) * N + tile.p_of(row)] : 0.0f;
  make_latents(tile, maxima, out, out_bias + seed * H, latents);
  __syncthreads();
  copy_out(operand + place, latents, ROWS);
  product_to(wide, latents, weight + seed * FRAGMENTS);
  __syncthreads();

  // A thread has a feature, and sums over the rows.
  {
    const float w = score[seed * H + h], c = offset[seed * H + h];
    float d[P], of_directions[P], a[SOURCES], to_first[SOURCES], of_offset = 0.0f, of_score = 0.0f, of_bias = 0.0f;
#pragma unroll
    for (int p = 0; p < P; ++p) d[p] = directions[p * H + h], of_directions[p] = 0.0f;
#pragma unroll
    for (int i = 0; i < SOURCES; ++i) a[i] = nodes[last(tile.first_i + i) * WIDTH + FIRST + h], to_first[i] = 0.0f;
#pragma unroll 1
    for (int j = 0; j < TARGETS; ++j) {
      const float start = nodes[last(tile.first_p + j) * WIDTH + SECOND + h] + c;
      float to_second = 0.0f;
#pragma unroll
      for (int i = 0; i < SOURCES; ++i) {
        const int row = j * SOURCES + i;
        const float of_logit = of_logits[row];
        float t = wide[row * WIDE_STRIDE + h] + start;
#pragma unroll
        for (int p = 0; p < P; ++p) t = fmaf(scalars[row * P + p], d[p], t);
        of_bias += of_logit;
        of_score = fmaf(of_logit, fmaxf(a[i], t), of_score);
        // Half of the gradient goes to each of two that are equal.
        const float both = of_logit * w, gradient = t > a[i] ? both : t == a[i] ? 0.5f * both : 0.0f;
        to_first[i] += both - gradient;
        to_second += gradient;
#pragma unroll
        for (int p = 0; p < P; ++p) of_directions[p] = fmaf(scalars[row * P + p], gradient, of_directions[p]);
        wide[row * WIDE_STRIDE + h] = gradient;
        rounded[row * TILE_STRIDE + h] = (bf16)(pack(gradient, 0.0f) & 0xffffu);
      }
      of_offset += to_second;
      if (tile.first_p + j < N) d_second[(tile.first_p + j) * H + h] = to_second;
    }
#pragma unroll
    for (int i = 0; i < SOURCES; ++i)
      if (tile.first_i + i < N) d_first[(tile.first_i + i) * H + h] = to_first[i];
#pragma unroll
    for (int p = 0; p < P; ++p) small[p * H + h] = of_directions[p];
    small[P * H + h] = of_offset;
    small[(P + 1) * H + h] = of_score;
    small[(P + 2) * H + h] = h == 0 ? of_bias : 0.0f;
  }
  __syncthreads();
  copy_out(cotangent + place, rounded, ROWS);
#pragma unroll 1
  for (int p = 0; p < P; ++p) {
    float d[PART];
#pragma unroll
    for (int q = 0; q < PART; ++q) d[q] = directions[p * H + 32 * q + lane];
#pragma unroll
    for (int first = warp * OWN_ROWS; first < (warp + 1) * OWN_ROWS; first += GROUP) {
      float sums[GROUP];
#pragma unroll
      for (int g = 0; g < GROUP; ++g) {
        sums[g] = 0.0f;
#pragma unroll
        for (int q = 0; q < PART; ++q)
          sums[g] = fmaf(wide[(first + g) * WIDE_STRIDE + 32 * q + lane], d[q], sums[g]);
      }
      const float sum = sum_over_lanes<GROUP>(sums);
      const int row = first + lane;
      if (lane < GROUP && tile.has(row)) d_edges[tile.edge(row) * P + p] = sum;
    }
  }

  float acc[M_TILES][N_TILES][4];
  clear(acc);
  multiply(acc, rounded, transposed + seed * FRAGMENTS);
  __syncthreads();  // all have read `wide`
  for_pairs(acc, [&](int row, int column, float* v) {
    const float2 latent = load_pair(latents, row, column);
    *(float2*)(wide + row * WIDE_STRIDE + column) =
        make_float2(latent.x > 0.0f ? v[0] : 0.0f, latent.y > 0.0f ? v[1] : 0.0f);
  });
  __syncthreads();
  float of_out[FEATURES], of_out_bias = 0.0f;
#pragma unroll
  for (int f = 0; f < FEATURES; ++f) of_out[f] = 0.0f;
#pragma unroll 8
  for (int row = 0; row < ROWS; ++row) {
    const float gradient = wide[row * WIDE_STRIDE + h];
    of_out_bias += gradient;
#pragma unroll
    for (int f = 0; f < FEATURES; ++f) of_out[f] = fmaf(narrow[row * FEATURES + f], gradient, of_out[f]);
  }
#pragma unroll
  for (int f = 0; f < FEATURES; ++f) small[(P + 3 + f) * H + h] = of_out[f];
  small[(P + 3 + FEATURES) * H + h] = of_out_bias;

  float direction[FEATURES][PART];
#pragma unroll
  for (int f = 0; f < FEATURES; ++f)
#pragma unroll
    for (int q = 0; q < PART; ++q) direction[f][q] = out[f * H + 32 * q + lane];
#pragma unroll 2
  for (int row = warp * OWN_ROWS; row < (warp + 1) * OWN_ROWS; ++row) {
    float sums[FEATURES], gradient[PART];
#pragma unroll
    for (int q = 0; q < PART; ++q) gradient[q] = wide[row * WIDE_STRIDE + 32 * q + lane];
#pragma unroll
    for (int f = 0; f < FEATURES; ++f) {
      sums[f] = 0.0f;
#pragma unroll
      for (int q = 0; q < PART; ++q) sums[f] = fmaf(gradient[q], direction[f][q], sums[f]);
    }
    const float sum = sum_over_lanes<FEATURES>(sums);
    if (lane < FEATURES && tile.has(row)) d_maxima[tile.edge(row) * FEATURES + lane] = sum;
  }
}
#endif
