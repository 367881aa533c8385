// Backward of the attention: the gradient of the triplets' vectors t_ijk, summed over each of their nodes.
//
// Compiled for N nodes with TERMS terms each, P scalars per edge and SAMPLES samples. blockIdx.z is the seed, blockIdx.y the pass:
//   pass 0: a = i, b = j, c = k    pass 1: a = k, b = i, c = j    pass 2: a = j, b = k, c = i
// and sums are over c. A block has four nodes a, its warps take turns with fours of nodes b.
//
// With d the gradient of a logit and w the weights of the attention, the gradient of t is w d where t > 0 and slope w d
// elsewhere. Summed over c that is w (slope D + (1 - slope) sum of d [t > 0]): a product of the mask with d, which the
// matrix units compute, sixteen features and sixteen c at a time. d is scaled to fit half precision, and what the
// rounding leaves is a column of its own.

#define ATTENTION 1
#if N > 1200  // beyond 1,289 nodes an int cannot count all records
#define RECORD ((long long)(N + 1 + P))
#else
#define RECORD (N + 1 + P)
#endif
#include "half.cuh"
#include "triplets.cuh"

#define BLOCKS ((N + 3) / 4)
#define CHUNKS ((N + 15) / 16)  // of sixteen nodes c
#define SMALL (P + 1)
#define SHARERS (BLOCKS == 1 ? 4 : BLOCKS == 2 ? 2 : 1)  // warps that share four nodes b, each with some of the features
#define TILES (H / 16 / SHARERS)

// Features go to the matrix units sixteen at a time in such an order that a lane has two neighbours of each tile:
// 16 g + 2 tile and the next. In shared memory, vectors are kept in that order, too: tile by tile, all lanes g.
// STAGES_NODES says whether the vectors of nodes are there.
#define NODE_STRIDE 136
__device__ __forceinline__ int place_of(int feature) { return feature % 16 / 2 * 16 + feature / 16 * 2 + feature % 2; }

struct BackwardMemory {
  uint4 directions[DIRECTION_WORDS / 2];  // as left operands: sixteen features, the same for the high and the low scalars
  float per_warp[WARPS][4 + P][H];  // sums over pairs, still without w: those of each a; those with the scalars p
  float logits[WARPS][4][4][16];    // gradients of logits, by a, b, c
  float mixed[WARPS][4][4][P];      // what the scalars of pairs (a, b) get through the mixed ones (in pass 1)
  float of_scalars[WARPS][P][16];   // what they get through t, from some of the features
  float weighted[P][H];             // the directions of pairs (a, b) times w
#if STAGES_NODES
  float nodes[4 + 2 * N][NODE_STRIDE];  // of nodes a, b and c
#endif
#if CHUNKS > 1
  float sums[WARPS][H / 16][8][32];
#endif
};

struct Direction {
  u32 words[4];
  __device__ __forceinline__ Direction(const uint4* directions, int kind, int step, int tile) {
    const uint4 both = directions[((kind * SCALAR_STEPS + step) * (H / 16) + tile) * 32 + threadIdx.x % 32];
    words[0] = both.x, words[1] = both.y, words[2] = both.z, words[3] = both.w;
  }
};

// Where the pass finds its nodes among i, j, k, and the kinds of its pairs.
template <int PASS>
struct Roles {
  static constexpr int A = PASS == 0 ? 0 : PASS == 1 ? 2 : 1;  // 0: i, 1: j, 2: k
  static constexpr int B = PASS == 0 ? 1 : PASS == 1 ? 0 : 2;
  static constexpr int C = PASS == 0 ? 2 : PASS == 1 ? 1 : 0;
  static constexpr int AB = PASS;  // 0: ij, 1: ik, 2: jk
  static constexpr int AC = PASS == 0 ? 1 : PASS == 1 ? 2 : 0;
  static constexpr int BC = PASS == 0 ? 2 : PASS == 1 ? 0 : 1;
  __device__ static const float* ab(const float* s, int a, int b) { return PASS == 1 ? edge(s, b, a) : edge(s, a, b); }
  __device__ static const float* ac(const float* s, int a, int c) { return PASS == 0 ? edge(s, a, c) : edge(s, c, a); }
  __device__ static const float* bc(const float* s, int b, int c) { return PASS == 2 ? edge(s, c, b) : edge(s, b, c); }
};

// Computes the gradients of the logits of 4 x 4 pairs (a, b) with sixteen nodes c, by one warp.
template <int PASS>
__device__ __forceinline__ void stage_logits(
    const float* scalars, const float* record, const float* d_mixed, int first_a, int first_b, int first_c,
    BackwardMemory& shared) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  __syncwarp();  // all have read what was there
  float mixed[P][4];  // in pass 1: by b, for a = lane % 4
#pragma unroll
  for (int round = 0; round < 8; ++round) {
    // Neighbours in a warp read neighbouring numbers: those with the next k (in pass 1 only four of them), then j.
    const int a = PASS == 0 ? round / 2 : PASS == 1 ? lane % 4 : lane / 4 % 4;
    const int b = PASS == 0 ? round % 2 * 2 + lane / 16 : PASS == 1 ? round / 2 : lane % 4;
    const int c = PASS == 0 ? lane % 16 : PASS == 1 ? round % 2 * 8 + lane / 4 : round * 2 + lane / 16;
    const int i = PASS == 0 ? first_a + a : PASS == 1 ? first_b + b : first_c + c;
    const int j = PASS == 0 ? first_b + b : PASS == 1 ? first_c + c : first_a + a;
    const int k = PASS == 0 ? first_c + c : PASS == 1 ? first_a + a : first_b + b;
    const bool valid = i < N && j < N && k < N;
    const float* saved = record + (last(i) * N + last(j)) * RECORD;
    const float* d_mix = d_mixed + (last(i) * N + last(j)) * (P + 1);
    const float* s = edge(scalars, last(i), last(k));
    const float alpha = valid ? __expf(saved[last(k)] - saved[N]) : 0.0f;
    float d = -d_mix[P];
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const float to_mixed = d_mix[p];
      d = fmaf(to_mixed, s[p], d);
      if (PASS == 1) mixed[p][round / 2] = fmaf(alpha, to_mixed, round % 2 ? mixed[p][round / 2] : 0.0f);
    }
    shared.logits[warp][a][b][c] = alpha * d;
  }
  if (PASS == 1)
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const float total = sum_over_g(mixed[p]);
      float& sum = shared.mixed[warp][lane % 4][value_of_lane()][p];
      if (lane / 4 % 2 == 0) sum = total + (first_c ? sum : 0.0f);
    }
  __syncwarp();
}

// The same as right operands, and the sums over c.
struct Logits {
  u32 columns[4][2];  // per a; column g is that of b = g / 2: high parts where g is even, low parts where it is odd
  float scale;        // that they are to be multiplied by
};

__device__ __forceinline__ Logits operands_of_logits(const float (&staged)[4][4][16], float (&sums)[4]) {
  const Lane at;
  float2 d[4][2];
  float highest = 0.0f;
#pragma unroll
  for (int a = 0; a < 4; ++a) {
    float sum = 0.0f;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      d[a][half] = *(const float2*)&staged[a][at.g / 2][8 * half + 2 * at.q];
      highest = fmaxf(highest, fmaxf(fabsf(d[a][half].x), fabsf(d[a][half].y)));
      sum += d[a][half].x + d[a][half].y;
    }
    // For the lanes q = b.
    sum += __shfl_xor_sync(0xffffffff, sum, 1);
    sum += __shfl_xor_sync(0xffffffff, sum, 2);
    sums[a] += __shfl_sync(0xffffffff, sum, 8 * at.q);
  }
#pragma unroll
  for (int step = 1; step < 32; step *= 2) highest = fmaxf(highest, __shfl_xor_sync(0xffffffff, highest, step));
  // The power of two that brings the highest between 2^13 and 2^14; nothing that small counts.
  const int exponent = (int)(__float_as_uint(highest) >> 23);
  const bool scales = exponent > 20 && exponent < 255;
  const float up = scales ? __uint_as_float((u32)(267 - exponent) << 23) : 1.0f;
  Logits found;
  found.scale = scales ? __uint_as_float((u32)(exponent - 13) << 23) : 1.0f;
#pragma unroll
  for (int a = 0; a < 4; ++a)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float first = up * d[a][half].x, second = up * d[a][half].y;
      const u32 high = pack_half(first, second);
      const float2 rounded = unpack_half(high);
      found.columns[a][half] = at.g % 2 ? pack_half(first - rounded.x, second - rounded.y) : high;
    }
  return found;
}

// A lane's two features of a node in the role ROLE (0: a, 1: b, 2: c); `terms` are those of that role.
template <int ROLE>
__device__ __forceinline__ float2 features_of(
    const BackwardMemory& shared, const float* terms, int first_a, int node, int tile) {
#if STAGES_NODES
  const int row = ROLE == 0 ? node - first_a : ROLE == 1 ? 4 + node : 4 + N + node;
  return *(const float2*)(shared.nodes[row] + 16 * tile + 2 * Lane().g);
#else
  return *(const float2*)(terms + last(node) * TERMS + 16 * Lane().g + 2 * tile);
#endif
}

// For sixteen features: what the pairs (a, b) add to t, negative. This lane has b = q and two of the features.
template <int PASS>
__device__ __forceinline__ void pair_vectors(
    const BackwardMemory& shared, const float* terms, const Scalars (&of_ab)[2], int first_a, int first_b, int tile,
    u32 (&negative)[4]) {
  using R = Roles<PASS>;
  const float2 of_b = features_of<1>(shared, terms + R::B * H, first_a, last(first_b + Lane().q), tile);
#pragma unroll
  for (int pair = 0; pair < 2; ++pair) {  // of nodes a
    const float2 first = features_of<0>(shared, terms + R::A * H, first_a, first_a + 2 * pair, tile);
    const float2 second = features_of<0>(shared, terms + R::A * H, first_a, first_a + 2 * pair + 1, tile);
    float sums[4] = {first.x + of_b.x, second.x + of_b.x, first.y + of_b.y, second.y + of_b.y};
#pragma unroll
    for (int step = 0; step < SCALAR_STEPS; ++step) {
      const Direction e(shared.directions, R::AB, step, tile);
      multiply_add_half(sums, e.words, of_ab[pair].words[step][0], of_ab[pair].words[step][1], sums);
    }
    negative[2 * pair] = pack_half(-sums[0], -sums[2]);
    negative[2 * pair + 1] = pack_half(-sums[1], -sums[3]);
  }
}

// For sixteen features and nodes c: what a pair with c adds to t, as the left operand of the sum over c.
__device__ __forceinline__ void operand_of_pair(
    const uint4* directions, int kind, int tile, const Scalars (&scalars)[2], const float (&start)[2][4], u32 (&operand)[4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {  // of the nodes c
    float sums[4];
#pragma unroll
    for (int step = 0; step < SCALAR_STEPS; ++step) {
      const Direction e(directions, kind, step, tile);
      multiply_add_half(sums, e.words, scalars[half].words[step][0], scalars[half].words[step][1], step ? sums : start[half]);
    }
    operand[2 * half] = pack_half(sums[0], sums[1]);
    operand[2 * half + 1] = pack_half(sums[2], sums[3]);
  }
}

__device__ __forceinline__ void add_to(float2* sums, float first, float second) {
  *sums = make_float2(sums->x + first, sums->y + second);
}

template <int PASS>
__device__ __forceinline__ void marginal(
    const float* terms, const float* scalars, const float* triplet, const float* attention, const float* record,
    const float* d_mixed, float* d_node, float* d_scalars, float* small, BackwardMemory& shared) {
  using R = Roles<PASS>;
  const Lane at;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int first_a = blockIdx.x % BLOCKS * 4, first_tile = warp % SHARERS * TILES;
#pragma unroll
  for (int step = 0; step < SCALAR_STEPS; ++step) {
    const int p = 8 * step + 2 * at.q;
    const float* e = triplet + p * H + 16 * at.g + 2 * warp;
#pragma unroll
    for (int kind = 0; kind < 3; ++kind)
#pragma unroll
      for (int tile = 0; tile < H / 16; tile += WARPS) {
        const float* here = e + kind * P * H + 2 * tile;
        const u32 low = pair_of_directions(here, p), high = pair_of_directions(here + 1, p);
        shared.directions[((kind * SCALAR_STEPS + step) * (H / 16) + tile + warp) * 32 + lane] =
            make_uint4(low, high, low, high);
      }
  }
  for (int p = 0; p < P; ++p)
    shared.weighted[p][place_of(threadIdx.x)] = attention[threadIdx.x] * triplet[(R::AB * P + p) * H + threadIdx.x];
#if STAGES_NODES
#pragma unroll 3
  for (int row = warp; row < 4 + 2 * N; row += WARPS) {
    const int node = row < 4 ? last(first_a + row) : row < 4 + N ? row - 4 : row - 4 - N;
    const int role = row < 4 ? R::A : row < 4 + N ? R::B : R::C;
    const float4 x = features(terms + node * TERMS + role * H);
    float* place = shared.nodes[row] + place_of(4 * lane);  // that of the next two features is 16 further
    *(float2*)place = make_float2(x.x, x.y);
    *(float2*)(place + 16) = make_float2(x.z, x.w);
  }
#endif
  for (int i = 0; i < WARPS * (4 + P); ++i) shared.per_warp[i / (4 + P)][i % (4 + P)][threadIdx.x] = 0.0f;
  __syncthreads();

#pragma unroll 1
  for (int first_b = 4 * (warp / SHARERS); first_b < N; first_b += 4 * WARPS / SHARERS) {
    // Columns of pairs: in the first operand a = g % 2, in the second 2 + g % 2; b = g / 2.
    Scalars of_ab[2];
    u32 in_pair[SCALAR_STEPS][2];  // the scalar number g of the pairs (a, q), for the gradients of directions
#pragma unroll
    for (int pair = 0; pair < 2; ++pair)
      of_ab[pair].load(R::ab(scalars, last(first_a + 2 * pair + at.g % 2), last(first_b + at.g / 2)));
#pragma unroll
    for (int step = 0; step < SCALAR_STEPS; ++step)
#pragma unroll
      for (int pair = 0; pair < 2; ++pair) {
        const int p = 8 * step + at.g, b = last(first_b + at.q);
        const float first = p < P ? R::ab(scalars, last(first_a + 2 * pair), b)[p] : 0.0f;
        const float second = p < P ? R::ab(scalars, last(first_a + 2 * pair + 1), b)[p] : 0.0f;
        in_pair[step][pair] = pack(first, second);
      }
    float totals[4] = {0.0f, 0.0f, 0.0f, 0.0f}, of_scalars[P][4];
#pragma unroll
    for (int p = 0; p < P; ++p)
#pragma unroll
      for (int a = 0; a < 4; ++a) of_scalars[p][a] = 0.0f;

    // With sums of d [t > 0] for pairs (a, b = q) and two features.
    auto finish = [&](int tile, const float (&sums)[4][2]) {
      const int place = 16 * tile + 2 * at.g;
      float gradients[2][4];
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int a = 0; a < 4; ++a) gradients[r][a] = fmaf(1.0f - SLOPE, sums[a][r], SLOPE * totals[a]);
#pragma unroll
      for (int p = 0; p < P; ++p) {
        const float2 e = *(const float2*)(shared.weighted[p] + place);
#pragma unroll
        for (int a = 0; a < 4; ++a)
          of_scalars[p][a] = fmaf(gradients[0][a], e.x, fmaf(gradients[1][a], e.y, of_scalars[p][a]));
      }
      const u32 operand[4] = {pack(gradients[0][0], gradients[0][1]), pack(gradients[1][0], gradients[1][1]),
                              pack(gradients[0][2], gradients[0][3]), pack(gradients[1][2], gradients[1][3])};
#pragma unroll
      for (int step = 0; step < SCALAR_STEPS; ++step) {
        float products[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        multiply_accumulate(products, operand, in_pair[step][0], in_pair[step][1]);
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int p = 8 * step + 2 * at.q + e;
          if (p < P) add_to((float2*)(shared.per_warp[warp][4 + p] + place), products[e], products[2 + e]);
        }
      }
      // Sums over the lanes q; lane q keeps that of a = q.
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float(&values)[4] = gradients[r];
#pragma unroll
        for (int half = 2; half >= 1; half /= 2) {
          const bool upper = lane & half;
#pragma unroll
          for (int i = 0; i < half; ++i) {
            const float give = upper ? values[i] : values[i + half], keep = upper ? values[i + half] : values[i];
            values[i] = keep + __shfl_xor_sync(0xffffffff, give, half);
          }
        }
      }
      add_to((float2*)(shared.per_warp[warp][at.q] + place), gradients[0][0], gradients[1][0]);
    };

#pragma unroll 1
    for (int chunk = 0; chunk < CHUNKS; ++chunk) {
      const int first_c = 16 * chunk;
      stage_logits<PASS>(scalars, record, d_mixed, first_a, first_b, first_c, shared);
      const Logits logits = operands_of_logits(shared.logits[warp], totals);
      Scalars of_ac[4][2], of_bc[4][2];
#pragma unroll
      for (int x = 0; x < 4; ++x)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int c = last(first_c + 8 * half + at.g);
          of_ac[x][half].load(R::ac(scalars, last(first_a + x), c));
          of_bc[x][half].load(R::bc(scalars, last(first_b + x), c));
        }
#pragma unroll 1
      for (int tile = first_tile; tile < first_tile + TILES; ++tile) {
        u32 negative[4], ac[4][4], bc[4];
        pair_vectors<PASS>(shared, terms, of_ab, first_a, first_b, tile, negative);
        float nodes[2][4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int c = last(first_c + 2 * at.q + e % 2 + 8 * (e / 2));
          const float2 x = features_of<2>(shared, terms + R::C * H, first_a, c, tile);
          nodes[e / 2][e % 2] = x.x, nodes[e / 2][2 + e % 2] = x.y;
        }
#pragma unroll
        for (int a = 0; a < 4; ++a) operand_of_pair(shared.directions, R::AC, tile, of_ac[a], nodes, ac[a]);
        const float none[2][4] = {};
        float products[4][4];
#pragma unroll
        for (int a = 0; a < 4; ++a)
#pragma unroll
          for (int e = 0; e < 4; ++e) products[a][e] = 0.0f;
#pragma unroll
        for (int b = 0; b < 4; ++b) {
          operand_of_pair(shared.directions, R::BC, tile, of_bc[b], none, bc);
#pragma unroll
          for (int a = 0; a < 4; ++a) {
            const u32 pair = __shfl_sync(0xffffffff, negative[a], (lane & ~3) + b);
            const u32 low = twice_low(pair), high = twice_high(pair);
            const u32 mask[4] = {greater_half(add_half(ac[a][0], bc[0]), low), greater_half(add_half(ac[a][1], bc[1]), high),
                                 greater_half(add_half(ac[a][2], bc[2]), low), greater_half(add_half(ac[a][3], bc[3]), high)};
            const bool mine = at.g / 2 == b;
            multiply_add_half(products[a], mask, mine ? logits.columns[a][0] : 0, mine ? logits.columns[a][1] : 0, products[a]);
          }
        }
        float sums[4][2];
#pragma unroll
        for (int a = 0; a < 4; ++a)
#pragma unroll
          for (int r = 0; r < 2; ++r) sums[a][r] = logits.scale * (products[a][2 * r] + products[a][2 * r + 1]);
#if CHUNKS > 1
#pragma unroll
        for (int a = 0; a < 4; ++a)
#pragma unroll
          for (int r = 0; r < 2; ++r) {
            float& sum = shared.sums[warp][tile][2 * a + r][lane];
            sum = sums[a][r] + (chunk ? sum : 0.0f);
          }
#else
        finish(tile, sums);
#endif
      }
    }
#if CHUNKS > 1
#pragma unroll 1
    for (int tile = first_tile; tile < first_tile + TILES; ++tile) {
      float sums[4][2];
#pragma unroll
      for (int a = 0; a < 4; ++a)
#pragma unroll
        for (int r = 0; r < 2; ++r) sums[a][r] = shared.sums[warp][tile][2 * a + r][lane];
      finish(tile, sums);
    }
#endif
    __syncwarp();
    const int my_a = value_of_lane(), a = first_a + my_a, b = first_b + at.q;
#pragma unroll
    for (int p = 0; p < P; ++p) {
      float total = sum_over_g(of_scalars[p]);
      if (PASS == 1 && warp % SHARERS == 0) total += shared.mixed[warp][my_a][at.q][p];
      if (at.g % 2 == 0) {
        if (SHARERS > 1) shared.of_scalars[warp][p][4 * my_a + at.q] = total;
        else if (a < N && b < N) d_scalars[(PASS == 1 ? b * N + a : a * N + b) * P + p] = total;
      }
    }
  }
  __syncthreads();
  if (SHARERS > 1)
    for (int i = threadIdx.x; i < BLOCKS * 16 * P; i += THREADS) {
      const int p = i % P, b = i / P % (4 * BLOCKS), my_a = i / P / (4 * BLOCKS), a = first_a + my_a;
      float total = 0.0f;
      for (int w = b / 4 * SHARERS; w < (b / 4 + 1) * SHARERS; ++w) total += shared.of_scalars[w][p][4 * my_a + b % 4];
      if (a < N && b < N) d_scalars[(PASS == 1 ? b * N + a : a * N + b) * P + p] = total;
    }

  // The sums over warps. As t is a sum over its nodes and pairs, so is the gradient of w: each pass has one of each.
  const int feature = threadIdx.x;
  const float weight = attention[feature];
  float to_weight = 0.0f;
  for (int v = 0; v < 4 + P; ++v) {
    float total = 0.0f;
    for (int w = 0; w < WARPS; ++w) total += shared.per_warp[w][v][place_of(feature)];
    if (v >= 4) {
      to_weight = fmaf(triplet[(R::AB * P + v - 4) * H + feature], total, to_weight);
      small[(v - 4) * H + feature] = weight * total;
    } else if (first_a + v < N) {
      to_weight = fmaf(terms[(first_a + v) * TERMS + R::A * H + feature], total, to_weight);
      d_node[(first_a + v) * H + feature] = weight * total;
    }
  }
  small[P * H + feature] = to_weight;
}

#if defined(BUILD_attention_backward)
// Writes, per pass, the gradients of x_i, x_k or x_j, of the scalars s_ij, s_ik or s_jk, and per block those of E1, E2
// or E3 and of a (its three shares).
extern "C" __global__ void __launch_bounds__(THREADS, P <= 4 ? 3 : 2) attention_backward(
    const float* terms, const float* scalars, const float* triplet, const float* attention, const float* record,
    const float* d_mixed, TIME_PARAMETERS float* d_nodes, float* d_scalars, float* small) {
  const Sample at(BLOCKS);
  const int pass = blockIdx.y;
  BackwardMemory& shared = *(BackwardMemory*)memory;
  terms += at.at(TIMED_terms, NOW) * N * TERMS;
  scalars += at.at(TIMED_scalars, NOW) * N * N * P;
  triplet += at.seed * 3 * P * H;
  attention += at.seed * H;
  record += at.at(TIMED_record, NOW) * N * N * RECORD;
  d_mixed += at.index * N * N * (P + 1);
  d_nodes += (at.index * 3 + pass) * N * H;
  d_scalars += (at.index * 3 + pass) * N * N * P;
  small += ((at.at(TIMED_small, NOW) * 3 + pass) * BLOCKS + blockIdx.x % BLOCKS) * SMALL * H;
  if (HAS_ENDED(at.index)) {
    const int first_a = blockIdx.x % BLOCKS * 4, nodes = min(N - first_a, 4);
    write_zeros(d_nodes + first_a * H, nodes * H, THREADS);
    write_zeros(small, SMALL * H, THREADS);
    if (pass == 1)
      for (int b = 0; b < N; ++b) write_zeros(d_scalars + (b * N + first_a) * P, nodes * P, THREADS);
    else
      write_zeros(d_scalars + first_a * N * P, nodes * N * P, THREADS);
    return;
  }
  if (pass == 0) marginal<0>(terms, scalars, triplet, attention, record, d_mixed, d_nodes, d_scalars, small, shared);
  if (pass == 1) marginal<1>(terms, scalars, triplet, attention, record, d_mixed, d_nodes, d_scalars, small, shared);
  if (pass == 2) marginal<2>(terms, scalars, triplet, attention, record, d_mixed, d_nodes, d_scalars, small, shared);
}
#endif
