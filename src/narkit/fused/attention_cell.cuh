// A cell of triplets in shared memory: what the warps of the attention's backward kernel have in common. That is all
// that does not depend on features: gradients of logits, scalars of edges, and the gradients of these.

#define BLOCKS ((N + 3) / 4)
#define HALVES (N > 8 ? 2 : 1)  // of a tile, each with eight nodes c
#define WIDTH (8 * HALVES)
// GROUP is the number of nodes b at a time: 16, or 8 where there is no room for more.
#define FOURS (N > GROUP ? GROUP / 4 : BLOCKS)  // of nodes b at a time
#define SENT (4 * FOURS)                        // these nodes
#define PACKED (P <= 4)  // the scalars' high and low parts fit into one operand of eight
#define SHARES_E1 (P <= 4 || P > 8)  // whether what E1 needs is in shared memory; else there is no room for it
#define OPERAND_WORDS (PACKED ? 1 : 2 * SCALAR_STEPS)
#define FLIPPED (P > 4 && P < 8 ? 4 * P : 32)  // lanes with scalars; for columns that are not used others read anything
#define COLUMN_STEPS ((P + 4 + 7) / 8)  // of eight columns: the scalars, and one for each a
#define ROWS ((SENT + 4) * HALVES + 2 * FOURS)  // of eight edges: (b, c), (a, c), (a, b)
#define ROW_OF_A (SENT * HALVES)
#define ROW_OF_PAIRS ((SENT + 4) * HALVES)
#define EVEN_P ((P + 1) / 2 * 2)
#define SHARERS (THREADS / (4 * WIDTH))  // threads that share the triplets of a and c
#define SMALL (3 * P + 1)
// As many as shared memory has room for.
#define BLOCKS_PER_SM (N > 8 ? (P > (SHORT_SHARES ? 8 : 6) ? 2 : 3) : P > 8 ? 2 : P > 4 ? 3 : 4)

// Features: a warp has 32 of them, in two tiles of sixteen rows. A lane has four neighbours, two of each tile: its rows
// g and g + 8. This is the first.
__device__ __forceinline__ int first_feature() { return 16 * Lane().g + 4 * (threadIdx.x / 32); }

struct Four {
  float v[4];
  __device__ __forceinline__ Four() {}
  __device__ __forceinline__ Four(const float* from) {
    const float4 x = *(const float4*)from;
    v[0] = x.x, v[1] = x.y, v[2] = x.z, v[3] = x.w;
  }
};

// Directions as left operands, rows are the features of a tile; `e` is that of the lane's first feature.
struct Directions {
  u32 words[2][SCALAR_STEPS][2];
  __device__ __forceinline__ Directions(const float* e) {
#pragma unroll
    for (int step = 0; step < SCALAR_STEPS; ++step) {
      const int p = PACKED ? Lane().q % 2 * 2 : 8 * step + 2 * Lane().q;
      const Four first(e + min(p, P - 1) * H), second(e + min(p + 1, P - 1) * H);
#pragma unroll
      for (int f = 0; f < 4; ++f)
        words[f / 2][step][f % 2] = pack_half(p < P ? first.v[f] : 0.0f, p + 1 < P ? second.v[f] : 0.0f);
    }
  }
};

// Directions times w as right operands, columns are scalars.
struct alignas(16) WeightedDirections {
  u32 words[2][SCALAR_STEPS][2];
  __device__ __forceinline__ WeightedDirections(const float* triplet, const float* attention) {
    // Of rows 2 q and 2 q + 8; those of the next are 16 further.
    const int feature = 32 * Lane().q + 4 * (threadIdx.x / 32);
    const Four w[2] = {Four(attention + feature), Four(attention + feature + 16)};
#pragma unroll
    for (int step = 0; step < SCALAR_STEPS; ++step) {
      const float* e = triplet + min(8 * step + Lane().g, P - 1) * H + feature;
      const Four first(e), second(e + 16);
#pragma unroll
      for (int f = 0; f < 4; ++f)
        words[f / 2][step][f % 2] = pack_half(w[0].v[f] * first.v[f], w[1].v[f] * second.v[f]);
    }
  }
};

// With FEATURES, gradients come with the features that latents are made of (see feature_mix.cuh), of which the first
// MIXED are averages with the attention's weights; else with averages of s_ik alone, and their inner product with these.
#if FEATURES
#define MIXED ((VALUES_OF_JK ? 2 : 1) * P)
#define GRADIENTS FEATURES
#else
#define VALUES_OF_JK 0
#define GRADIENTS (P + 1)
#endif

// What a warp's features contribute to the gradients of two scalars: rounded to bfloat16 where these take much room.
#define SHORT_SHARES (FEATURES && P > 6)
#if SHORT_SHARES
#define WORDS 1  // of two
typedef u32 Share;
__device__ __forceinline__ void write_share(Share* out, float x, float y) { *out = pack(x, y); }
__device__ __forceinline__ float2 read_share(const Share* from) { return unpack_pair(*from); }
#else
#define WORDS 2
typedef float Share;
__device__ __forceinline__ void write_share(Share* out, float x, float y) { *(float2*)out = make_float2(x, y); }
__device__ __forceinline__ float2 read_share(const Share* from) { return *(const float2*)from; }
#endif

struct BackwardMemory {
  u32 columns[ROWS][32][OPERAND_WORDS];  // scalars of edges as right operands: columns are edges
  u32 flipped[ROWS][SCALAR_STEPS][FLIPPED];  // the same, rounded, where columns are scalars
  u32 packed[SENT][4][4 * HALVES + 4];   // by b and q: gradients of logits, scaled, two c a word; their sums over a
  uint4 of_pairs[WARPS][SENT][2][8];     // what pairs (a, b) add to t: by b, tile and g, a word per a
#if SHARES_E1
  WeightedDirections weighted_e1[THREADS];
  float4 of_e1[2][COLUMN_STEPS][THREADS];  // gradients of E1 and of nodes a, by tile
#endif
  u32 starts[4][4][HALVES];  // by a and q: sums over b
  union {
    Share of_scalars[WARPS][ROWS][8][EVEN_P / 2 * WORDS];  // gradients, of each warp's features
    struct {                                   // before that
      float logits[4][SENT][WIDTH];
      float totals[SHARERS][4][WIDTH];  // sums over b
    };
  };
  float mixed[SHARERS][4][WIDTH][P];  // what the scalars of (a, c) get through the mixed ones
  float highest[WARPS];
#if FEATURES
  float expected[4][SENT];  // by a and b: the inner product of averages (and weights) with their gradients
#endif
};

static_assert(sizeof(BackwardMemory) <= SHARED_BYTES, "the kernel is given too little");

// A cell: four nodes a, up to GROUP nodes b and WIDTH nodes c.
struct Cell {
  int a, b, c;  // the first ones
  // An edge of a row of eight.
  __device__ __forceinline__ void edge(int row, int column, int& from, int& to) const {
    if (row >= ROW_OF_PAIRS) {
      from = a + (row - ROW_OF_PAIRS) % 2 * 2 + column % 2;
      to = b + (row - ROW_OF_PAIRS) / 2 * 4 + column / 2;
    } else {
      from = row >= ROW_OF_A ? a + (row - ROW_OF_A) / HALVES : b + row / HALVES;
      to = c + row % HALVES * 8 + column;
    }
  }
};

__device__ __forceinline__ void stage_scalars(BackwardMemory& shared, const float* scalars, const Cell& cell) {
#pragma unroll (PACKED ? 2 : 1)
  for (int first = 0; first < ROWS * 4; first += THREADS) {
    const int i = min(first + (int)threadIdx.x, ROWS * 4 - 1);  // those beyond the last repeat it
    const int row = i / 4, q = i % 4;                           // two neighbouring columns
    float s[2][8 * SCALAR_STEPS];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      int from, to;
      cell.edge(row, 2 * q + e, from, to);
      const float* of_edge = edge(scalars, last(from), last(to));
#pragma unroll
      for (int p = 0; p < 8 * SCALAR_STEPS; ++p) s[e][p] = p < P ? of_edge[p] : 0.0f;
    }
#pragma unroll
    for (int p = 0; p < P; ++p) shared.flipped[row][p / 8][p % 8 * 4 + q] = pack_half(s[0][p], s[1][p]);
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      u32 high_words[4 * SCALAR_STEPS], low_words[4 * SCALAR_STEPS];
#pragma unroll
      for (int w = 0; w < 4 * SCALAR_STEPS; ++w) {
        high_words[w] = pack_half(s[e][2 * w], s[e][2 * w + 1]);
        const float2 rounded = unpack_half(high_words[w]);
        low_words[w] = pack_half(s[e][2 * w] - rounded.x, s[e][2 * w + 1] - rounded.y);
      }
      u32* words = shared.columns[row][8 * q + 4 * e];
#if PACKED
      *(uint4*)words = make_uint4(high_words[0], high_words[1], low_words[0], low_words[1]);
#else
#pragma unroll
      for (int w = 0; w < 4 * SCALAR_STEPS; ++w)
        *(uint2*)(words + w % 4 * OPERAND_WORDS + w / 4 * 2) = make_uint2(high_words[w], low_words[w]);
#endif
    }
  }
}

#if FEATURES
__device__ __forceinline__ void stage_expected(
    BackwardMemory& shared, const float* features, const float* d_features, const float* record, const float* d_weights,
    const Cell& cell) {
#pragma unroll 1
  for (int e = threadIdx.x; e < 4 * SENT; e += THREADS) {
    const int edge = last(cell.a + e / SENT) * N + last(cell.b + e % SENT);
    const float *of_edge = features + edge * FEATURES, *d_of_edge = d_features + edge * FEATURES;
    float sum = 0.0f;
#pragma unroll
    for (int p = 0; p < MIXED; ++p) sum = fmaf(of_edge[p], d_of_edge[p], sum);
#if ADDED
    const float* saved = record + edge * RECORD;
#pragma unroll 4
    for (int k = 0; k < N; ++k) sum = fmaf(__expf(saved[k] - saved[N]), d_weights[edge * (RECORD - 1) + k], sum);
#endif
    shared.expected[e / SENT][e % SENT] = sum;
  }
}
#endif

__device__ __forceinline__ void stage_logits(
    BackwardMemory& shared, const float* scalars, const float* record, const float* d_mixed, const float* d_weights,
    float* d_added, const Cell& cell) {
  const int c = threadIdx.x % WIDTH, a = threadIdx.x / WIDTH % 4, share = threadIdx.x / (4 * WIDTH);
  const int i = cell.a + a, k = cell.c + c;
  const float* of_edge = edge(scalars, last(i), last(k));
  float s[P], mixed[P], total = 0.0f, highest = 0.0f;
#pragma unroll
  for (int p = 0; p < P; ++p) s[p] = of_edge[p], mixed[p] = 0.0f;
  record += last(i) * N * RECORD;
  d_mixed += last(i) * N * GRADIENTS;
#pragma unroll (P <= 4 ? SENT / SHARERS : 2)
  for (int round = 0; round < SENT / SHARERS; ++round) {
    const int b = round * SHARERS + share, j = cell.b + b;
    const float* saved = record + last(j) * RECORD;
    const float* d_mix = d_mixed + last(j) * GRADIENTS;
    const float logit = saved[last(k)] - saved[N];
    const float alpha = __expf(i < N && j < N && k < N ? logit : -1e30f);  // no branch, or reads would wait for others
#if FEATURES
    float d = -shared.expected[a][b];
#else
    float d = -d_mix[P];
#endif
#pragma unroll
    for (int p = 0; p < P; ++p) {
      d = fmaf(d_mix[p], s[p], d);
      mixed[p] = fmaf(alpha, d_mix[p], mixed[p]);
    }
#if VALUES_OF_JK
    const float* of_jk = edge(scalars, last(j), last(k));
#pragma unroll
    for (int p = 0; p < P; ++p) d = fmaf(d_mix[P + p], of_jk[p], d);
#endif
#if ADDED
    const auto triplet = (last(i) * N + last(j)) * (RECORD - 1) + last(k);
    d = alpha * (d + d_weights[triplet]);
    if (i < N && j < N && k < N) d_added[triplet] = d;
    d *= SCALE;
#else
    d *= SCALE * alpha;
#endif
    shared.logits[a][b][c] = d;
    total += d;
    highest = fmaxf(highest, fabsf(d));
  }
  shared.totals[share][a][c] = total;
#pragma unroll
  for (int p = 0; p < P; ++p) shared.mixed[share][a][c][p] = mixed[p];
  highest = highest_of_lanes(highest);
  if (threadIdx.x % 32 == 0) shared.highest[threadIdx.x / 32] = highest;
}

// Rounds the gradients of logits, and sums them for the linear part. Returns what sums are to be multiplied by.
__device__ __forceinline__ float pack_logits(BackwardMemory& shared) {
  float highest = shared.highest[0];
#pragma unroll
  for (int w = 1; w < WARPS; ++w) highest = fmaxf(highest, shared.highest[w]);
  // The power of two that brings the highest between 2^8 and 2^9, so that sums of 64 fit; nothing that small counts.
  const int exponent = (int)(__float_as_uint(highest) >> 23);
  const bool scales = exponent > 20 && exponent < 255;
  const float up = scales ? __uint_as_float((u32)(262 - exponent) << 23) : 1.0f;
  const float linear = up * (SLOPE / (1.0f - SLOPE));
#pragma unroll 1
  for (int i = threadIdx.x; i < (SENT + 4) * 4 * HALVES; i += THREADS) {
    const int half = i % HALVES, q = i / HALVES % 4, row = i / HALVES / 4, c = 8 * half + 2 * q;
    float2 total = make_float2(0.0f, 0.0f);
    if (row < SENT) {
#pragma unroll
      for (int a = 0; a < 4; ++a) {
        const float2 d = *(const float2*)(shared.logits[a][row] + c);
        shared.packed[row][q][a * HALVES + half] = pack_half(up * d.x, up * d.y);
        total = make_float2(total.x + d.x, total.y + d.y);
      }
    } else {
#pragma unroll
      for (int share = 0; share < SHARERS; ++share) {
        const float2 d = *(const float2*)(shared.totals[share][row - SENT] + c);
        total = make_float2(total.x + d.x, total.y + d.y);
      }
    }
    u32& start = row < SENT ? shared.packed[row][q][4 * HALVES + half] : shared.starts[row - SENT][q][half];
    start = pack_half(linear * total.x, linear * total.y);
  }
  return scales ? (1.0f - SLOPE) * __uint_as_float((u32)(exponent - 8) << 23) : 1.0f - SLOPE;
}

// Where a block's results go.
struct Gradients {
  float *of_i, *of_j, *of_k;  // of nodes; those of j and k are this block's parts
  float* of_scalars[3];       // of (i, j), of (i, k), this block's part of (j, k)
  float* small;               // E1, E2, E3, w
};

#if VALUES_OF_JK
// What the scalars of (j, k) get through averages of s_jk from the four nodes a: shared memory has no room for that.
__device__ __forceinline__ void through_values_of_jk(
    const float* record, const float* d_features, const Cell& cell, int j, int k, float* totals) {
#pragma unroll
  for (int p = 0; p < P; ++p) totals[p] = 0.0f;
#pragma unroll
  for (int a = 0; a < 4; ++a) {
    const int edge = last(cell.a + a) * N + j;
    const float* saved = record + edge * RECORD;
    const float alpha = __expf(cell.a + a < N ? saved[k] - saved[N] : -1e30f);
#pragma unroll
    for (int p = 0; p < P; ++p) totals[p] = fmaf(alpha, d_features[edge * FEATURES + P + p], totals[p]);
  }
}
#endif

// Sums over warps, that is, over all features.
__device__ __forceinline__ void finish_scalars(
    BackwardMemory& shared, const float* record, const float* d_mixed, const Cell& cell, float factor,
    const Gradients& out, bool is_first) {
#pragma unroll 1
  for (int i = threadIdx.x; i < ROWS * 8; i += THREADS) {
    const int row = i / 8, column = i % 8;
    int from, to;
    cell.edge(row, column, from, to);
    if (from >= N || to >= N) continue;
    float2 totals[EVEN_P / 2];
#pragma unroll
    for (int pair = 0; pair < EVEN_P / 2; ++pair) {
      float2& total = totals[pair] = make_float2(0.0f, 0.0f);
#pragma unroll
      for (int w = 0; w < WARPS; ++w) {
        const float2 of_warp = read_share(shared.of_scalars[w][row][column] + WORDS * pair);
        total = make_float2(total.x + of_warp.x, total.y + of_warp.y);
      }
    }
    const int kind = row >= ROW_OF_PAIRS ? 0 : row >= ROW_OF_A ? 1 : 2;
    const bool adds = kind == 0 ? cell.c : kind == 1 ? cell.b : !is_first;
    float* place = kind == 0 ? out.of_scalars[0] : kind == 1 ? out.of_scalars[1] : out.of_scalars[2];
    place += (from * N + to) * P;
#if VALUES_OF_JK
    float of_jk[P];
    if (kind == 2) through_values_of_jk(record, d_mixed, cell, from, to, of_jk);
#endif
#pragma unroll
    for (int p = 0; p < P; ++p) {
      float total = factor * (p % 2 ? totals[p / 2].y : totals[p / 2].x);
#if VALUES_OF_JK
      if (kind == 2) total += of_jk[p];
#endif
      if (kind == 1)
#pragma unroll
        for (int share = 0; share < SHARERS; ++share) total += shared.mixed[share][from - cell.a][to - cell.c][p];
      if (adds) total += place[p];
      place[p] = total;
    }
  }
}
