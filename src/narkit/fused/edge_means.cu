// What a network reads of pointers from edges (i, j) to nodes k: the softmax over k, averaged over the edges that enter
// a node and over those that leave it. (j, k, 0) has the mean over i, (i, k, 1) the mean over j.
//
// Compiled for one number of nodes N and of samples SAMPLES. blockIdx.z is the seed.

// Of the softmax over the numbers of a row, for all lanes of a warp.
struct Softmax {
  float highest, share;
  __device__ __forceinline__ Softmax(float highest, float share) : highest(highest), share(share) {}
  __device__ __forceinline__ Softmax(const float* row) : highest(-3.0e38f) {
    const int lane = threadIdx.x % 32;
    for (int k = lane; k < N; k += 32) highest = fmaxf(highest, row[k]);
    highest = highest_of_lanes(highest);
    float total = 0.0f;
    for (int k = lane; k < N; k += 32) total += __expf(row[k] - highest);
    share = 1.0f / sum_over_groups<1>(total);
  }
  __device__ __forceinline__ float operator()(float logit) const { return __expf(logit - highest) * share; }
};

#if defined(BUILD_edge_means_forward)
// A block has a sample: first what the softmaxes need, then the means.
extern "C" __global__ void __launch_bounds__(32 * MEANS_WARPS) edge_means_forward(
    const float* logits, TIME_PARAMETERS float* means) {
  const Sample sample(1);
  logits += sample.at(TIMED_logits, NOW) * N * N * N;
  means += sample.index * N * N * 2;
  float2* softmaxes = (float2*)memory;
  for (int edge = threadIdx.x / 32; edge < N * N; edge += MEANS_WARPS) {
    const Softmax softmax(logits + edge * N);
    if (threadIdx.x % 32 == 0) softmaxes[edge] = make_float2(softmax.highest, softmax.share);
  }
  __syncthreads();
  const auto probability = [&](int edge, int k) {
    return Softmax(softmaxes[edge].x, softmaxes[edge].y)(logits[edge * N + k]);
  };
  for (int pair = threadIdx.x; pair < 2 * N * N; pair += 32 * MEANS_WARPS) {
    const int leaves = pair / (N * N), node = pair / N % N, k = pair % N;
    float sum = 0.0f;
    for (int other = 0; other < N; ++other)
      sum += probability(leaves ? node * N + other : other * N + node, k);
    means[(node * N + k) * 2 + leaves] = sum / N;
  }
}
#endif

#if defined(BUILD_edge_means_backward)
// A block has a sample and a node i, a warp one edge (i, j) after the other. What others add to the gradient of a logit
// comes in `given`.
extern "C" __global__ void __launch_bounds__(32 * MEANS_WARPS) edge_means_backward(
    const float* logits, const float* given, const float* d_means, TIME_PARAMETERS float* d_logits) {
  const Sample sample(N);
  const int i = blockIdx.x % N, lane = threadIdx.x % 32;
  const long long edges = (long long)i * N * N;
  logits += sample.at(TIMED_logits, NOW) * N * N * N + edges;
  given += sample.at(TIMED_given, NOW) * N * N * N + edges;
  d_logits += sample.index * N * N * N + edges;
  d_means += sample.index * N * N * 2;
  for (int j = threadIdx.x / 32; j < N; j += MEANS_WARPS) {
    const Softmax softmax(logits + j * N);
    const auto d = [&](int k) { return (d_means[(j * N + k) * 2] + d_means[(i * N + k) * 2 + 1]) / N; };
    float expected = 0.0f;
    for (int k = lane; k < N; k += 32) expected = fmaf(softmax(logits[j * N + k]), d(k), expected);
    expected = sum_over_groups<1>(expected);
    for (int k = lane; k < N; k += 32)
      d_logits[j * N + k] = fmaf(softmax(logits[j * N + k]), d(k) - expected, given[j * N + k]);
  }
}
#endif
