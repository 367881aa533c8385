// The attention of edges over third nodes, on the way forth: part of the forward kernels in messages.cu and, with
// FEATURES, in latent_features.cu.

#if ATTENTION
#define CHUNKS ((N + 15) / 16)  // of sixteen nodes k
// Warps that share 4 x 4 edges, where there are too few of these for all: each has some features, later some senders.
#define SHARING (SENDERS < 4 * WARPS ? 4 * WARPS / SENDERS : 1)
static_assert(SHARING == 1 || CHUNKS == 1, "logits are exchanged once");

// Features go to the matrix units sixteen at a time in such an order that a lane q has four neighbours of each tile:
// 32 q + 4 tile and the next three.

// What all warps of a block share.
struct AttentionMemory {
  u32 directions[DIRECTION_WORDS];
  u32 weights[H / 16][32][2];          // a (1 - slope): columns of its high and of its low part, by turns
  u32 on_direction[2][SCALAR_STEPS][4];  // slope a . E2, slope a . E3
  float on_node[N];                    // slope a . x_k
#if SENDERS < 4 * WARPS
  float logits[WARPS][8][32];          // what each warp has summed, lane by lane
#endif
#if FEATURES
  float of_edges[WARPS][16][17];       // the logits of a warp's edges and sixteen k, with a gap behind each edge
#endif
};

#if FEATURES
#include "feature_mix.cuh"
#endif

__device__ __forceinline__ void stage(
    AttentionMemory& shared, const float* terms, const float* triplet, const float* attention) {
  const Lane at;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  stage_directions(triplet, shared.directions, [](int tile, int g) { return g / 2 * 32 + 2 * tile + g % 2; });
#pragma unroll
  for (int first = 0; first < H / 16; first += WARPS) {
    const int tile = first + warp;
    const float4 four = *(const float4*)(attention + 32 * at.q + 4 * tile);
    const float numbers[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float bend = (1.0f - SLOPE) * SCALE, first = bend * numbers[2 * half], second = bend * numbers[2 * half + 1];
      const u32 high = pack_half(first, second);
      const float2 rounded = unpack_half(high);
      shared.weights[tile][lane][half] = at.g % 2 ? pack_half(first - rounded.x, second - rounded.y) : high;
    }
  }
  // Inner products with a, eight per warp at a time: of x_k, then of E2, then of E3. The vectors are read without
  // branches (a itself where there is none), so that all eight are under way at once.
  const float4 a = features(attention);
  const int count = N + 16 * SCALAR_STEPS;
#pragma unroll 1
  for (int first = warp; first < count; first += 8 * WARPS) {
    float4 vectors[8];
    bool exists[8];
#pragma unroll
    for (int t = 0; t < 8; ++t) {
      const int i = first + t * WARPS, p = (i - N) % (8 * SCALAR_STEPS), kind = 1 + (i - N) / (8 * SCALAR_STEPS);
      exists[t] = i < N || (i < count && p < P);
      const float* vector = i < N ? terms + i * TERMS + 2 * H : triplet + (kind * P + p) * H;
      vectors[t] = features(exists[t] ? vector : attention);
    }
    float partial[8];
#pragma unroll
    for (int t = 0; t < 8; ++t) partial[t] = exists[t] ? dot(a, vectors[t], 0.0f) : 0.0f;
    const float total = SLOPE * SCALE * sum_over_lanes<8>(partial);
    const int i = first + lane * WARPS;
    if (lane >= 8 || i >= count) continue;
    if (i < N) shared.on_node[i] = total;
    else ((bf16*)shared.on_direction)[i - N] = (bf16)(pack_half(total, 0.0f) & 0xffffu);
  }
}

// The attention of 4 x 4 edges by one warp, or by SHARING of them: mixed scalars to shared memory, with SAVE the record
// to global memory. With FEATURES these are written to global memory instead, with all else that latents are made of.
__device__ __forceinline__ void attend(
    AttentionMemory& shared, const float* terms, const float* scalars, int first_i, int first_j,
#if FEATURES
    const float* maxima, const float* added, float* features,
#else
    int i_in_tile, int j_in_tile, float* mixed,
#endif
    float* record) {
  const Lane at;
  const int part = threadIdx.x / 32 % SHARING;
  // Edge number 4 a + b is the one from i = first_i + a to j = first_j + b. Of rows of edges a lane has g and g + 8.
  RowsOfScalars of_ij;
  of_ij.load(edge(scalars, last(first_i + at.g / 4), last(first_j + at.g % 4)),
             edge(scalars, last(first_i + 2 + at.g / 4), last(first_j + at.g % 4)));
  const float* x_j = terms + last(first_j + at.g % 4) * TERMS + H;
  const float* x_i[2] = {terms + last(first_i + at.g / 4) * TERMS, terms + last(first_i + 2 + at.g / 4) * TERMS};

  // Of logits a lane has those of the edges (a, b = q), for k = g and g + 8 of a chunk.
  const int my_j = first_j + at.q;
#if FEATURES
  FeatureMix mix(scalars, first_i, first_j);
#else
  float highest[4], total[4], mix[P][4];
#pragma unroll
  for (int a = 0; a < 4; ++a) {
    highest[a] = -1e30f, total[a] = 0.0f;
#pragma unroll
    for (int p = 0; p < P; ++p) mix[p][a] = 0.0f;
  }
#endif
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; ++chunk) {
    const int k[2] = {16 * chunk + at.g, 16 * chunk + at.g + 8};
    RowsOfScalars of_ik[4], of_jk[4];
#pragma unroll
    for (int a = 0; a < 4; ++a) {
      of_ik[a].load(edge(scalars, last(first_i + a), last(k[0])), edge(scalars, last(first_i + a), last(k[1])));
      of_jk[a].load(edge(scalars, last(first_j + a), last(k[0])), edge(scalars, last(first_j + a), last(k[1])));
    }
    const float* x_k[2] = {terms + last(k[0]) * TERMS + 2 * H, terms + last(k[1]) * TERMS + 2 * H};
    float logits[4][4] = {};
#pragma unroll 1
    for (int tile = part * (H / 16 / SHARING); tile < (part + 1) * (H / 16 / SHARING); ++tile) {
      const int feature = 32 * at.q + 4 * tile;
      const float4 of_j = *(const float4*)(x_j + feature);
      const float4 of_i[2] = {*(const float4*)(x_i[0] + feature), *(const float4*)(x_i[1] + feature)};
      const float4 of_k[2] = {*(const float4*)(x_k[0] + feature), *(const float4*)(x_k[1] + feature)};
      u32 ij[2][2], jk[4][4];  // of edges and features; of nodes b, as the left operand (rows k, columns features)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float sums[4];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const float4 both = of_i[r] + of_j;
          sums[2 * r] = half ? both.z : both.x, sums[2 * r + 1] = half ? both.w : both.y;
        }
#pragma unroll
        for (int step = 0; step < SCALAR_STEPS; ++step) {
          const u32 e = direction(shared.directions, 0, step, 2 * tile + half);
          multiply_add_half(sums, of_ij.words[step], e, e, sums);
        }
        ij[0][half] = pack_half(sums[0], sums[1]);
        ij[1][half] = pack_half(sums[2], sums[3]);
        const float none[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (int b = 0; b < 4; ++b) {
          float products[4];
#pragma unroll
          for (int step = 0; step < SCALAR_STEPS; ++step) {
            const u32 e = direction(shared.directions, 2, step, 2 * tile + half);
            multiply_add_half(products, of_jk[b].words[step], e, e, step ? products : none);
          }
          jk[b][2 * half] = pack_half(products[0], products[1]);
          jk[b][2 * half + 1] = pack_half(products[2], products[3]);
        }
      }
      // The right operand for edges with node b: the weights in the columns 2 b and 2 b + 1.
      const uint2 weights = *(const uint2*)shared.weights[tile][threadIdx.x % 32];
      u32 columns[4][2];
#pragma unroll
      for (int b = 0; b < 4; ++b) {
        columns[b][0] = at.g / 2 == b ? weights.x : 0;
        columns[b][1] = at.g / 2 == b ? weights.y : 0;
      }
      float nodes[2][4];
#pragma unroll
      for (int half = 0; half < 2; ++half)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          nodes[half][2 * r] = half ? of_k[r].z : of_k[r].x, nodes[half][2 * r + 1] = half ? of_k[r].w : of_k[r].y;
        }
#pragma unroll
      for (int a = 0; a < 4; ++a) {
        u32 ik[4];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float sums[4];
#pragma unroll
          for (int step = 0; step < SCALAR_STEPS; ++step) {
            const u32 e = direction(shared.directions, 1, step, 2 * tile + half);
            multiply_add_half(sums, of_ik[a].words[step], e, e, step ? sums : nodes[half]);
          }
          ik[2 * half] = pack_half(sums[0], sums[1]);
          ik[2 * half + 1] = pack_half(sums[2], sums[3]);
        }
#pragma unroll
        for (int b = 0; b < 4; ++b) {
          const int source = (4 * a + b) % 8 * 4 + at.q;
          const u32 low = __shfl_sync(0xffffffff, ij[a / 2][0], source), high = __shfl_sync(0xffffffff, ij[a / 2][1], source);
          const u32 rectified[4] = {
              add_rectified_half(add_half(ik[0], low), jk[b][0]), add_rectified_half(add_half(ik[1], low), jk[b][1]),
              add_rectified_half(add_half(ik[2], high), jk[b][2]), add_rectified_half(add_half(ik[3], high), jk[b][3])};
          multiply_add_half(logits[a], rectified, columns[b][0], columns[b][1], logits[a]);
        }
      }
    }

    float bent[4][2];  // the sums of both columns
#pragma unroll
    for (int a = 0; a < 4; ++a)
#pragma unroll
      for (int r = 0; r < 2; ++r) bent[a][r] = logits[a][2 * r] + logits[a][2 * r + 1];
#if SENDERS < 4 * WARPS
    float(*of_warps)[8][32] = shared.logits + (threadIdx.x / 32 - part);
#pragma unroll
    for (int v = 0; v < 8; ++v) of_warps[part][v][threadIdx.x % 32] = bent[v / 2][v % 2];
    __syncthreads();
#pragma unroll
    for (int v = 0; v < 8; ++v) {
      if (v / 2 % SHARING != part) continue;
      float sum = 0.0f;
#pragma unroll
      for (int w = 0; w < SHARING; ++w) sum += of_warps[w][v][threadIdx.x % 32];
      bent[v / 2][v % 2] = sum;
    }
#endif

    // The linear part: slope a . (x_k + s_ik E2 + s_jk E3); what does not depend on k cancels.
    float linear[2] = {0.0f, 0.0f};
    const float on_nodes[4] = {shared.on_node[last(k[0])], 0.0f, shared.on_node[last(k[1])], 0.0f};
    const float none[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int b = 0; b < 4; ++b) {
      float sums[4];
#pragma unroll
      for (int step = 0; step < SCALAR_STEPS; ++step) {
        const u32 e = shared.on_direction[1][step][at.q];
        multiply_add_half(sums, of_jk[b].words[step], e, e, step ? sums : none);
      }
      if (at.q == b) linear[0] = sums[0], linear[1] = sums[2];
    }
#pragma unroll
    for (int a = 0; a < 4; ++a) {
      if (a % SHARING != part) continue;
      const int i = first_i + a;
#if !FEATURES
      float own[2][P];  // read before the writes below, which reads would wait for
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int p = 0; p < P; ++p) own[r][p] = edge(scalars, last(i), last(k[r]))[p];
#endif
      float sums[4];
#pragma unroll
      for (int step = 0; step < SCALAR_STEPS; ++step) {
        const u32 e = shared.on_direction[0][step][at.q];
        multiply_add_half(sums, of_ik[a].words[step], e, e, step ? sums : on_nodes);
      }
#if FEATURES
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float logit = bent[a][r] + sums[2 * r] + linear[r];
#if ADDED
        logit += added[(last(i) * N + last(my_j)) * (RECORD - 1) + last(k[r])];
#endif
        if (k[r] >= N) logit = -1e30f;
        if (SAVE && i < N && my_j < N && k[r] < N) record[(i * N + my_j) * RECORD + k[r]] = logit;
        shared.of_edges[threadIdx.x / 32][4 * a + at.q][at.g + 8 * r] = logit;
      }
    }
    __syncwarp();
    mix.add(shared.of_edges[threadIdx.x / 32], part, 16 * chunk);
    __syncwarp();  // all have read the logits
  }
  mix.write(part, scalars, maxima, features, record);
#else
      float logit[2], higher = highest[a];
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        logit[r] = k[r] < N ? bent[a][r] + sums[2 * r] + linear[r] : -1e30f;
        if (SAVE && i < N && my_j < N && k[r] < N) record[(i * N + my_j) * RECORD + k[r]] = logit[r];
        higher = fmaxf(higher, logit[r]);
      }
#pragma unroll
      for (int step = 4; step < 32; step *= 2) higher = fmaxf(higher, __shfl_xor_sync(0xffffffff, higher, step));
      const float shrink = __expf(highest[a] - higher), weight[2] = {__expf(logit[0] - higher), __expf(logit[1] - higher)};
      total[a] = fmaf(total[a], shrink, weight[0] + weight[1]);
#pragma unroll
      for (int p = 0; p < P; ++p)
        mix[p][a] = fmaf(mix[p][a], shrink, fmaf(weight[0], own[0][p], weight[1] * own[1][p]));
      highest[a] = higher;
    }
  }

  const float sum = sum_over_g(total);
  const int my_a = value_of_lane(), i = first_i + my_a;
  const bool writes = at.g % 2 == 0 && my_a % SHARING == part, saves = SAVE && writes && i < N && my_j < N;
  const int row = (j_in_tile + at.q) * SENDERS + i_in_tile + my_a;
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const float mean = sum_over_g(mix[p]) / sum;
    if (writes) mixed[row * P + p] = mean;
    if (saves) record[(i * N + my_j) * RECORD + N + 1 + p] = mean;
  }
  const float top = my_a < 2 ? (my_a ? highest[1] : highest[0]) : (my_a == 2 ? highest[2] : highest[3]);
  if (saves) record[(i * N + my_j) * RECORD + N] = top + __logf(sum);
#endif
}
#endif
