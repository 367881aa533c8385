// Triplet Edge Attention on dense features of nodes and edges, forward.
//
//   u_ij = x_i + x_j + e_ij W1     w_ik = x_k + e_ik W2     q_jk = e_jk W3     v_ik = e_ik W4 + bias
//   logit_ijk = a . LeakyReLU(u_ij + w_ik + q_jk)     latent_ij = sum_k softmax_k(logit_ijk) v_ik
//
// The first kernel makes the four vectors of every pair, in half precision, in the order in which the matrix units of the
// second one read them, so that both write and read 512 bytes per warp without gaps: sixteen pairs of a node (a tile)
// and sixteen features are a fragment, of which lane (g, q) = (l / 4, l % 4) has the pairs g and g + 8 and the features
// 2 q, 2 q + 1, 2 q + 8 and 2 q + 9.
//
// With LeakyReLU(t) = slope t + (1 - slope) ReLU(t), the linear part of a logit is a sum over pairs, and what of it does
// not depend on k cancels in the softmax. So per two features of a triplet two additions are left, the second of which
// rectifies; the matrix units multiply by a and add up.
//
// Compiled for one number of nodes N. blockIdx.y is the sample, blockIdx.z the seed.

#include "half.cuh"
#include "staging.cuh"

#define CHUNKS ((N + 15) / 16)          // of sixteen nodes; vectors beyond the last node are finite and not used
#define TILES (16 * CHUNKS * CHUNKS)    // of sixteen pairs
#define FRAGMENTS (H / 16)              // of a tile
#define TILE_WORDS (FRAGMENTS * 32)     // of sixteen bytes
#define EDGE_WARPS 8

__device__ __forceinline__ long long sample_index() { return (long long)blockIdx.z * SAMPLES + blockIdx.y; }

#if defined(BUILD_pair_vectors)
#define BLOCK_TILES 8
#define LARGEST 21824.0f  // three of them add up to less than the largest number of half precision

__device__ __forceinline__ float limited(float x) { return x > LARGEST ? LARGEST : x < -LARGEST ? -LARGEST : x; }

// `terms` are x_i, x_j and x_k of a node, side by side; `weights` W1 to W4 as fragments (weights.py).
extern "C" __global__ void __launch_bounds__(32 * EDGE_WARPS, 2) pair_vectors(
    const float* __restrict__ edges, const float* __restrict__ terms, const uint4* __restrict__ weights,
    const float* __restrict__ value_bias, uint4* __restrict__ vectors) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, q = lane % 4;
  edges += sample_index() * N * N * H;
  terms += sample_index() * N * 3 * H;
  vectors += sample_index() * 4 * TILES * TILE_WORDS;
  weights += blockIdx.z * 4 * (H / 16) * (H / 16) * 32;
  value_bias += blockIdx.z * H;
  bf16* rows = (bf16*)memory;  // of half precision
  const int first = blockIdx.x * BLOCK_TILES;
#pragma unroll 8
  for (int row = warp; row < 16 * BLOCK_TILES; row += EDGE_WARPS) {
    const int tile = first + row / 16, i = tile / CHUNKS, k = tile % CHUNKS * 16 + row % 16;
    float4 four = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (i < N && k < N) four = features(edges + (i * N + k) * H);
    *(uint2*)(rows + row * TILE_STRIDE + 4 * lane) = make_uint2(pack_half(four.x, four.y), pack_half(four.z, four.w));
  }
  __syncthreads();

  // A warp has four tiles of rows and, of each weight, 32 columns.
  const int first_tile = first + warp / 4 * 4, fragment = warp % 4 * 2;
  const bf16* left = rows + (warp / 4 * 64 + lane % 16) * TILE_STRIDE + lane / 16 * 8;
#pragma unroll 1
  for (int kind = 0; kind < 4; ++kind) {
    float sums[4][4][4] = {};
    const uint4* right = weights + (kind * (H / 16) * (H / 16) + fragment) * 32 + lane;
#pragma unroll
    for (int k = 0; k < H / 16; ++k) {
      const uint4 b[2] = {right[k * (H / 16) * 32], right[(k * (H / 16) + 1) * 32]};
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        u32 a[4];
        load_matrices(a, left + 16 * m * TILE_STRIDE + 16 * k);
#pragma unroll
        for (int n = 0; n < 2; ++n) {
          multiply_add_half(sums[m][2 * n], a, b[n].x, b[n].y, sums[m][2 * n]);
          multiply_add_half(sums[m][2 * n + 1], a, b[n].z, b[n].w, sums[m][2 * n + 1]);
        }
      }
    }
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      const int tile = first_tile + m, i = tile / CHUNKS;
      // What is added to both rows of this lane, and to each of them.
      const float* to_all = kind == 0 ? terms + last(i) * 3 * H : value_bias;
      const float* to_row[2];
#pragma unroll
      for (int r = 0; r < 2; ++r)
        to_row[r] = terms + last(tile % CHUNKS * 16 + g + 8 * r) * 3 * H + (kind == 0 ? H : 2 * H);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        u32 words[4];
#pragma unroll
        for (int part = 0; part < 4; ++part) {
          const int half = part / 2, r = part % 2, feature = 16 * (fragment + n) + 8 * half + 2 * q;
          float2 both = make_float2(sums[m][2 * n + half][2 * r], sums[m][2 * n + half][2 * r + 1]);
          if (kind == 0 || kind == 3) {
            const float2 more = *(const float2*)(to_all + feature);
            both.x += more.x, both.y += more.y;
          }
          if (kind < 2) {
            const float2 more = *(const float2*)(to_row[r] + feature);
            both.x += more.x, both.y += more.y;
          }
          // The sum of u, w and q must be finite: its products with zeros, which stand for other edges, would not be zero.
          if (kind < 3) both = make_float2(limited(both.x), limited(both.y));
          words[part] = pack_half(both.x, both.y);
        }
        if (kind == 3) {  // v is a right operand: features as columns, pairs as rows
#pragma unroll
          for (int part = 0; part < 4; ++part) words[part] = transposed(words[part]);
        }
        vectors[((long long)kind * TILES + tile) * TILE_WORDS + (fragment + n) * 32 + lane] =
            make_uint4(words[0], words[1], words[2], words[3]);
      }
    }
  }
}
#endif

#if defined(BUILD_edge_attention)
// A block has BLOCK_I nodes i and sixteen nodes j; of these edges a warp has 4 x 8: the nodes j that it has are four
// neighbours and those 8 further, as u of such two lies in one word of sixteen bytes. It walks over k, sixteen at a time,
// and over fragments; what it reads next is on its way to shared memory meanwhile.
#define WARPS_I (BLOCK_I / 4)
#define EDGES (16 * BLOCK_I)
#define STRIDE (16 * CHUNKS + 8)  // of weights: rows of edges spread over all banks
#define OF_JK BLOCK_I             // where q begins in a stage, after w
#define OF_IJ (BLOCK_I + 16)      // and u
#define PIECES (2 * BLOCK_I + 16)
#define NEVER -1e30f              // the logit of a third node that is not allowed

struct EdgeMemory {
  uint4 attention[FRAGMENTS][32];  // a (1 - slope), as columns of its high and of its low part by turns, and slope a
  uint4 stages[2][PIECES][32];     // a fragment of w_ik and q_jk of sixteen k, and of u_ij, of every i or j
  float highest[EDGES][CHUNKS];    // logits of sixteen k
  bf16 weights[EDGES][STRIDE];     // half precision: exp(logit - highest), of the same k
};

__device__ __forceinline__ void stage_weights(EdgeMemory& shared, const float* attention) {
  const int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
#pragma unroll 1
  for (int fragment = threadIdx.x / 32; fragment < FRAGMENTS; fragment += 2 * WARPS_I) {
    u32 bent[2], linear[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float2 a = *(const float2*)(attention + 16 * fragment + 8 * half + 2 * q);
      const float first = (1.0f - SLOPE) * a.x, second = (1.0f - SLOPE) * a.y;
      const u32 high = pack_half(first, second);
      const float2 rounded = unpack_half(high);
      bent[half] = g % 2 ? pack_half(first - rounded.x, second - rounded.y) : high;
      linear[half] = g % 2 ? 0 : pack_half(SLOPE * a.x, SLOPE * a.y);
    }
    shared.attention[fragment][lane] = make_uint4(bent[0], bent[1], linear[0], linear[1]);
  }
}

// Starts to copy what all warps read in a step, a fragment of sixteen k: 512 bytes per node.
__device__ __forceinline__ void copy_stage(EdgeMemory& shared, const uint4* vectors, int block_i, int block_j, int step) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const uint4* of_i = vectors + (block_i * BLOCK_I + warp) * CHUNKS * TILE_WORDS + lane;
  const uint4* w = of_i + TILES * TILE_WORDS + step * 32;
  const uint4* q = vectors + (2 * TILES + (block_j * 16 + warp) * CHUNKS) * TILE_WORDS + step * 32 + lane;
  const uint4* u = of_i + block_j * TILE_WORDS + step % FRAGMENTS * 32;
  uint4* to = &shared.stages[step % 2][warp][lane];
#pragma unroll
  for (int piece = 0; piece < PIECES; piece += 2 * WARPS_I) {
    const uint4* from = piece < OF_JK   ? w + piece * CHUNKS * TILE_WORDS
                        : piece < OF_IJ ? q + (piece - OF_JK) * CHUNKS * TILE_WORDS
                                        : u + (piece - OF_IJ) * CHUNKS * TILE_WORDS;
    copy_ahead<16>(to + piece * 32, from, true);
  }
  end_of_stage();
}

// Whether k counts for the edge from i to j.
__device__ __forceinline__ bool allowed(const unsigned char* mask, int i, int j, int k) {
#if MASKED
  return k < N && (mask[last(i) * N + k] || mask[last(j) * N + k]);
#else
  return k < N;
#endif
}

// The logits of a warp's edges: per sixteen k the highest, and the exponentials of the others relative to it.
__device__ __forceinline__ void sum_triplets(
    EdgeMemory& shared, const uint4* vectors, const unsigned char* mask, int block_i, int block_j) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, q = lane % 4;
  const int first_i = warp / 2 * 4, first_j = warp % 2 * 4;  // in the block
  copy_stage(shared, vectors, block_i, block_j, 0);
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; ++chunk) {
    // Edge (a, b) has the columns 2 b and 2 b + 1, one for the high and one for the low part of a.
    float logits[4][2][4] = {}, on_jk[2][4] = {};
#pragma unroll 1
    for (int fragment = 0; fragment < FRAGMENTS; ++fragment) {
      const int step = chunk * FRAGMENTS + fragment;
      const uint4(*stage)[32] = shared.stages[step % 2];
      wait_for_stage<0>();
      __syncthreads();  // everyone's copies are there, and nobody reads the other stage any more
      if (step + 1 < FRAGMENTS * CHUNKS) copy_stage(shared, vectors, block_i, block_j, step + 1);
      const uint4 columns = shared.attention[fragment][lane];
      u32 jk[2][4][4];
#pragma unroll
      for (int b = 0; b < 4; ++b) {
        const bool mine = g / 2 == b;
        const u32 low_column = mine ? columns.z : 0, high_column = mine ? columns.w : 0;
#pragma unroll
        for (int s = 0; s < 2; ++s) {
          const uint4 words = stage[OF_JK + first_j + b + 8 * s][lane];
          jk[s][b][0] = words.x, jk[s][b][1] = words.y, jk[s][b][2] = words.z, jk[s][b][3] = words.w;
          multiply_add_half(on_jk[s], jk[s][b], low_column, high_column, on_jk[s]);
        }
      }
#pragma unroll
      for (int a = 0; a < 4; ++a) {
        const uint4 words = stage[first_i + a][lane];
        const u32 ik[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
        for (int s = 0; s < 2; ++s) multiply_add_half(logits[a][s], ik, columns.z, columns.w, logits[a][s]);
#pragma unroll
        for (int b = 0; b < 4; ++b) {
          const uint4 ij = stage[OF_IJ + first_i + a][(first_j + b) * 4 + q];
          const bool mine = g / 2 == b;
          const u32 low_column = mine ? columns.x : 0, high_column = mine ? columns.y : 0;
#pragma unroll
          for (int s = 0; s < 2; ++s) {
            const u32 low = s ? ij.y : ij.x, high = s ? ij.w : ij.z;
            const u32 rectified[4] = {
                add_rectified_half(add_half(ik[0], low), jk[s][b][0]), add_rectified_half(add_half(ik[1], low), jk[s][b][1]),
                add_rectified_half(add_half(ik[2], high), jk[s][b][2]), add_rectified_half(add_half(ik[3], high), jk[s][b][3])};
            multiply_add_half(logits[a][s], rectified, low_column, high_column, logits[a][s]);
          }
        }
      }
    }
    // A lane has the edges with b = q and the nodes k = g and g + 8 of the chunk.
    const int k[2] = {16 * chunk + g, 16 * chunk + g + 8};
#pragma unroll
    for (int s = 0; s < 2; ++s)
#pragma unroll
      for (int a = 0; a < 4; ++a) {
        const int i = first_i + a, j = first_j + q + 8 * s;
        float values[2], top = NEVER;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          values[r] = logits[a][s][2 * r] + logits[a][s][2 * r + 1] + on_jk[s][2 * r] + on_jk[s][2 * r + 1];
          if (!allowed(mask, block_i * BLOCK_I + i, block_j * 16 + j, k[r])) values[r] = NEVER;
          top = fmaxf(top, values[r]);
        }
#pragma unroll
        for (int step = 4; step < 32; step *= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, step));
        if (g == 0) shared.highest[i * 16 + j][chunk] = top;
        const float other = top == NEVER ? 0.0f : top;  // so that all weights are zero
        const u32 both = pack_half(__expf(values[0] - other), __expf(values[1] - other));
        shared.weights[i * 16 + j][k[0]] = (bf16)(both & 0xffffu);
        shared.weights[i * 16 + j][k[1]] = (bf16)(both >> 16);
      }
  }
}

// The latents of a node i and sixteen nodes j, by one warp. Its lanes have the nodes j = g and g + 8, and of k those that
// a left operand has: 2 q, 2 q + 1, 2 q + 8 and 2 q + 9 of sixteen.
__device__ __forceinline__ void mix_values(
    EdgeMemory& shared, const uint4* values, int i, int i_in_block, int block_j, float* latents) {
  const int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
  const int edges[2] = {i_in_block * 16 + g, i_in_block * 16 + g + 8};
  float highest[2] = {NEVER, NEVER}, total[2] = {0.0f, 0.0f}, sums[2 * FRAGMENTS][4] = {};
#pragma unroll
  for (int r = 0; r < 2; ++r) {
#pragma unroll 1
    for (int chunk = 0; chunk < CHUNKS; ++chunk) highest[r] = fmaxf(highest[r], shared.highest[edges[r]][chunk]);
    if (highest[r] == NEVER) highest[r] = 0.0f;  // no third node is allowed: all weights are zero
  }
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; ++chunk) {
    u32 weights[4];
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      const int r = part % 2, k = 16 * chunk + 8 * (part / 2) + 2 * q;
      const float scale = __expf(shared.highest[edges[r]][chunk] - highest[r]);
      const float2 both = unpack_half(*(const u32*)&shared.weights[edges[r]][k]);
      total[r] += scale * (both.x + both.y);
      weights[part] = pack_half(scale * both.x, scale * both.y);
    }
#pragma unroll
    for (int fragment = 0; fragment < FRAGMENTS; ++fragment) {
      const uint4 v = values[chunk * TILE_WORDS + fragment * 32 + lane];
      multiply_add_half(sums[2 * fragment], weights, v.x, v.y, sums[2 * fragment]);
      multiply_add_half(sums[2 * fragment + 1], weights, v.z, v.w, sums[2 * fragment + 1]);
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int j = 16 * block_j + g + 8 * r;
    const float sum = sum_over_quad(total[r]), scale = sum == 0.0f ? 0.0f : 1.0f / sum;
#pragma unroll
    for (int n = 0; n < 2 * FRAGMENTS; ++n) {
      float2 both = make_float2(scale * sums[n][2 * r], scale * sums[n][2 * r + 1]);
#if RECTIFIED
      both = make_float2(both.x < 0.0f ? 0.0f : both.x, both.y < 0.0f ? 0.0f : both.y);
#endif
      if (j < N) *(float2*)(latents + (i * N + j) * H + 8 * n + 2 * q) = both;
    }
  }
}

extern "C" __global__ void __launch_bounds__(64 * WARPS_I, 8 / WARPS_I) edge_attention(
    const uint4* __restrict__ vectors, const float* __restrict__ attention,
#if MASKED
    const unsigned char* __restrict__ mask,
#endif
    float* __restrict__ latents) {
  EdgeMemory& shared = *(EdgeMemory*)memory;
  const int block_i = blockIdx.x / CHUNKS, block_j = blockIdx.x % CHUNKS;
  vectors += sample_index() * 4 * TILES * TILE_WORDS;
  latents += sample_index() * N * N * H;
#if MASKED
  mask += sample_index() * N * N;
#else
  const unsigned char* mask = nullptr;
#endif
  stage_weights(shared, attention + blockIdx.z * H);
  sum_triplets(shared, vectors, mask, block_i, block_j);
  __syncthreads();
#pragma unroll 1
  for (int i_in_block = threadIdx.x / 32; i_in_block < BLOCK_I; i_in_block += 2 * WARPS_I) {
    const int i = block_i * BLOCK_I + i_in_block;
    if (i >= N) break;
    mix_values(shared, vectors + (3 * TILES + i * CHUNKS) * TILE_WORDS, i, i_in_block, block_j, latents);
  }
}
#endif
