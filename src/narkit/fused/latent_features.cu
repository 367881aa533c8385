// What the latents of edges are made of: Triplet Edge Attention over few scalars, for whoever makes latents of it. See
// latent_features.py for the formulas.
//
// Compiled for one number of nodes N with TERMS terms each, of scalars per edge P (at least 1), of FEATURES per edge and
// of samples SAMPLES. With ADDED the logits get further numbers, one per triplet; with SAVE these are kept for the
// backward kernel. blockIdx.z is the seed. A block has RECEIVERS nodes j and all nodes i, SENDERS at a time.

#define ATTENTION 1
#define RECEIVER_BLOCKS ((N + RECEIVERS - 1) / RECEIVERS)
#define SENDER_BLOCKS ((N + SENDERS - 1) / SENDERS)
#define BLOCKS_PER_SM (P > 8 ? 2 : 3)

#include "half.cuh"
#include "triplets.cuh"
#include "attention_forward.cuh"

#if defined(BUILD_features_forward)
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) features_forward(
    const float* terms, const float* scalars, const float* triplet, const float* attention,
#if MAXIMA
    const float* maxima,
#endif
#if ADDED
    const float* added,
#endif
    TIME_PARAMETERS float* features
#if SAVE
    , float* record
#endif
) {
#if !MAXIMA
  const float* maxima = 0;
#endif
#if !ADDED
  const float* added = 0;
#endif
#if !SAVE
  float* record = 0;
#endif
  AttentionMemory& shared = *(AttentionMemory*)memory;
  const Sample at(RECEIVER_BLOCKS);
  const int first_j = blockIdx.x % RECEIVER_BLOCKS * RECEIVERS;
  if (HAS_ENDED(at.index)) {
    features += (at.at(TIMED_features, NOW) * N * N + first_j) * FEATURES;
#pragma unroll 1
    for (int i = 0; i < N; ++i)
      write_zeros(features + i * N * FEATURES, min(N - first_j, RECEIVERS) * FEATURES, THREADS);
#if ADDED  // the compiler's programs read the record, too
    record += (at.at(TIMED_record, NOW) * N * N + first_j) * RECORD;
#pragma unroll 1
    for (int i = 0; i < N; ++i) write_zeros(record + i * N * RECORD, min(N - first_j, RECEIVERS) * RECORD, THREADS);
#endif
    return;
  }
  const int now = NOW;
  terms += at.at(TIMED_terms, now) * N * TERMS;
  scalars += at.at(TIMED_scalars, now) * N * N * P;
  triplet += at.seed * 3 * P * H;
  attention += at.seed * H;
  maxima += at.at(TIMED_maxima, now) * N * N * MAXIMA;
  added += ADDED ? at.index * N * N * (RECORD - 1) : 0;
  features += at.at(TIMED_features, now) * N * N * FEATURES;
  record += at.at(TIMED_record, now) * N * N * RECORD;
  stage(shared, terms, triplet, attention);
  __syncthreads();
#pragma unroll 1
  for (int first_i = threadIdx.x / 32 / SHARING * 4; first_i < SENDER_BLOCKS * SENDERS; first_i += 4 * WARPS / SHARING)
#pragma unroll 1
    for (int b = 0; b < RECEIVERS; b += 4)
      attend(shared, terms, scalars, first_i, first_j + b, maxima, added, features, record);
}
#endif
