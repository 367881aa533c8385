// Runs CUDA kernels on a CPU, thread by thread, so that their arithmetic can be tested without a GPU.
//
// Every thread of a block is a coroutine. Barriers of a block and exchanges inside a warp hand over to the next one.
// Contexts start the coroutines; later changes are jumps, which make no system call and take a tenth of the time.

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#define EMULATED
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct float2 { float x, y; };
struct int2 { int x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct uint2 { uint32_t x, y; };
struct alignas(16) uint4 { uint32_t x, y, z, w; };
struct Index { int x, y, z; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }
inline uint2 make_uint2(uint32_t x, uint32_t y) { return {x, y}; }

static Index threadIdx, blockIdx;
static uint4* memory;
static const int kMostThreads = 512;
static int num_threads;  // of a block

enum State { kRuns, kAtWarp, kAtBlock, kDone };
struct Coroutine { ucontext_t context; jmp_buf place; State state; bool started; int exchanges; };
static Coroutine coroutines[kMostThreads];
static const size_t kStackSize = 1 << 18;
static std::unique_ptr<char[]> stacks;  // not initialised, so that only what is used of them takes memory
static ucontext_t scheduler_context;
static jmp_buf scheduler;
static uint32_t exchanged[2][kMostThreads / 32][32][6];

inline void wait_for(State what) {
  const int me = threadIdx.x;
  coroutines[me].state = what;
  if (!_setjmp(coroutines[me].place)) _longjmp(scheduler, 1);
}

// Where the lanes of this warp leave what they exchange. Exchanges take turns with two places: when a lane comes back to
// one of them, all lanes have been through the other, so they have read what was there.
inline uint32_t (*exchange())[6] {
  return exchanged[coroutines[threadIdx.x].exchanges++ % 2][threadIdx.x / 32];
}
inline void __syncthreads() { wait_for(kAtBlock); }
inline void __syncwarp() { wait_for(kAtWarp); }

using std::max;
using std::min;

inline float __uint_as_float(uint32_t bits) { float value; memcpy(&value, &bits, 4); return value; }
inline uint32_t bits_of(float value) { uint32_t bits; memcpy(&bits, &value, 4); return bits; }
inline uint32_t __float_as_uint(float value) { return bits_of(value); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float saturated_fma(float x, float y, float z) { return fminf(fmaxf(fmaf(x, y, z), 0.0f), 1.0f); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }

inline float __shfl_sync(unsigned, float value, int source) {
  uint32_t(*lanes)[6] = exchange();
  lanes[threadIdx.x % 32][0] = bits_of(value);
  wait_for(kAtWarp);
  return __uint_as_float(lanes[source % 32][0]);
}
inline uint32_t __shfl_sync(unsigned mask, uint32_t value, int source) {
  return bits_of(__shfl_sync(mask, __uint_as_float(value), source));
}
inline float __shfl_xor_sync(unsigned mask, float value, int bit) {
  return __shfl_sync(mask, value, (threadIdx.x % 32) ^ bit);
}
inline int __shfl_xor_sync(unsigned mask, int value, int bit) {
  return (int)bits_of(__shfl_xor_sync(mask, __uint_as_float((uint32_t)value), bit));
}

inline uint32_t rounded(float value) {
  const uint32_t bits = bits_of(value);
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}
inline uint32_t pack(float low, float high) { return rounded(low) | (rounded(high) << 16); }
inline uint32_t pack_rectified(float low, float high) { return pack(fmaxf(low, 0.0f), fmaxf(high, 0.0f)); }
inline float half_of(uint32_t packed, int which) { return __uint_as_float(which ? packed & 0xffff0000u : packed << 16); }

// d = a b + c on the matrix units, where `number(word, which)` is one of the two numbers in a word.
template <typename F>
inline void multiply_add(float* d, const uint32_t* a, uint32_t b0, uint32_t b1, const float* c, F number) {
  const int lane = threadIdx.x % 32;
  uint32_t(*lanes)[6] = exchange();
  memcpy(lanes[lane], a, 16);
  lanes[lane][4] = b0;
  lanes[lane][5] = b1;
  wait_for(kAtWarp);
  for (int e = 0; e < 4; ++e) {
    const int row = lane / 4 + 8 * (e / 2), column = 2 * (lane % 4) + e % 2;
    float sum = c[e];
    for (int k = 0; k < 16; ++k) {
      const uint32_t left = lanes[row % 8 * 4 + k % 8 / 2][row / 8 + 2 * (k / 8)];
      const uint32_t right = lanes[column * 4 + k % 8 / 2][4 + k / 8];
      sum += number(left, k % 2) * number(right, k % 2);
    }
    d[e] = sum;
  }
}

inline void multiply_accumulate(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
  multiply_add(c, a, b0, b1, c, half_of);
}

// Half precision: rounded to even, as every operation on it is.
inline uint32_t to_half(float value) {
  const uint32_t sign = bits_of(value) >> 16 & 0x8000u;
  const float magnitude = fabsf(value);
  if (magnitude != magnitude) return sign | 0x7e00u;
  if (magnitude >= 65520.0f) return sign | (std::isinf(magnitude) ? 0x7c00u : 0x7bffu);
  if (magnitude < 6.103515625e-05f) return sign | (uint32_t)lrintf(magnitude * 16777216.0f);  // below the normal ones
  const uint32_t bits = bits_of(magnitude) - (112u << 23);
  return sign | ((bits + 0xfff + ((bits >> 13) & 1)) >> 13);
}
inline float from_half(uint32_t half) {
  const uint32_t exponent = half >> 10 & 31, fraction = half & 1023;
  const float magnitude = exponent == 31 ? (fraction ? NAN : INFINITY)
                          : exponent     ? __uint_as_float((exponent + 112) << 23 | fraction << 13)
                                         : fraction / 16777216.0f;
  return half & 0x8000u ? -magnitude : magnitude;
}
inline uint32_t pack_half(float low, float high) { return to_half(low) | to_half(high) << 16; }
inline float2 unpack_half(uint32_t packed) { return {from_half(packed & 0xffffu), from_half(packed >> 16)}; }
// What an operation on halves gives: unlike a conversion, beyond the largest number it is infinite.
inline uint32_t pack_result(float low, float high) {
  const auto of = [](float value) { return fabsf(value) >= 65520.0f ? copysignf(INFINITY, value) : value; };
  return pack_half(of(low), of(high));
}
inline uint32_t add_half(uint32_t a, uint32_t b) {
  const float2 x = unpack_half(a), y = unpack_half(b);
  return pack_result(x.x + y.x, x.y + y.y);
}
inline uint32_t negative_half(uint32_t a) { return a ^ 0x80008000u; }
inline uint32_t multiply_half(uint32_t a, uint32_t b) {
  const float2 x = unpack_half(a), y = unpack_half(b);
  return pack_result(x.x * y.x, x.y * y.y);
}
inline uint32_t multiply_add_half2(uint32_t a, uint32_t b, uint32_t c) {
  const float2 x = unpack_half(a), y = unpack_half(b), z = unpack_half(c);
  return pack_result(fmaf(x.x, y.x, z.x), fmaf(x.y, y.y, z.y));
}
inline uint32_t add_rectified_half(uint32_t a, uint32_t b) {
  const float2 x = unpack_half(a), y = unpack_half(b);
  return pack_result(fmaxf(x.x + y.x, 0.0f), fmaxf(x.y + y.y, 0.0f));
}
inline uint32_t twice_low(uint32_t packed) { return (packed & 0xffffu) | packed << 16; }
inline uint32_t twice_high(uint32_t packed) { return (packed & 0xffff0000u) | packed >> 16; }
inline uint32_t greater_half(uint32_t a, uint32_t b) {
  const float2 x = unpack_half(a), y = unpack_half(b);
  return pack_half(x.x > y.x ? 1.0f : 0.0f, x.y > y.y ? 1.0f : 0.0f);
}
inline void multiply_add_half(float* d, const uint32_t* a, uint32_t b0, uint32_t b1, const float* c) {
  multiply_add(d, a, b0, b1, c, [](uint32_t word, int which) { return from_half(word >> 16 * which & 0xffffu); });
}
inline void multiply_add_half_8(float* d, const uint32_t* a, uint32_t b, const float* c) {
  const uint32_t left[4] = {a[0], a[1], 0, 0};
  multiply_add_half(d, left, b, 0, c);
}
inline uint32_t transposed(uint32_t row) {
  const int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
  uint32_t(*lanes)[6] = exchange();
  lanes[threadIdx.x % 32][0] = row;
  wait_for(kAtWarp);
  const uint32_t first = lanes[8 * q + g / 2][0], second = lanes[8 * q + 4 + g / 2][0];  // in rows 2 q and 2 q + 1
  return g % 2 ? first >> 16 | (second & 0xffff0000u) : (first & 0xffffu) | second << 16;
}

inline void hold(uint32_t&) {}

inline void load_matrices(uint32_t (&a)[4], const unsigned short* row) {
  const int lane = threadIdx.x % 32;
  uint32_t(*lanes)[6] = exchange();
  memcpy(lanes[lane], &row, sizeof row);
  wait_for(kAtWarp);
  for (int matrix = 0; matrix < 4; ++matrix) {
    const unsigned short* from;
    memcpy(&from, lanes[8 * matrix + lane / 4], sizeof from);
    memcpy(&a[matrix], from + 2 * (lane % 4), 4);
  }
}

inline void load_matrices_transposed(uint32_t (&a)[4], const unsigned short* row) {
  const int lane = threadIdx.x % 32;
  uint32_t(*lanes)[6] = exchange();
  memcpy(lanes[lane], &row, sizeof row);
  wait_for(kAtWarp);
  for (int matrix = 0; matrix < 4; ++matrix) {
    uint32_t pair[2];
    for (int i = 0; i < 2; ++i) {
      const unsigned short* from;
      memcpy(&from, lanes[8 * matrix + 2 * (lane % 4) + i], sizeof from);
      pair[i] = from[lane / 4];
    }
    a[matrix] = pair[0] | pair[1] << 16;
  }
}

// Copies that a thread waits for later are made at once.
template <int BYTES, typename T>
inline void copy_ahead(T* to, const T* from, bool valid) {
  if ((uintptr_t)to % BYTES || (uintptr_t)from % BYTES) abort();
  valid ? memcpy(to, from, BYTES) : memset(to, 0, BYTES);
}
inline void end_of_stage() {}
template <int PENDING>
inline void wait_for_stage() {}

inline uint32_t to_tf32(float value) { return (bits_of(value) + 0x1000) & ~0x1fffu; }

// m16n8k8, where every word is a number.
inline void multiply_accumulate_tf32(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
  const int lane = threadIdx.x % 32;
  uint32_t(*lanes)[6] = exchange();
  memcpy(lanes[lane], a, 16);
  lanes[lane][4] = b0;
  lanes[lane][5] = b1;
  wait_for(kAtWarp);
  for (int e = 0; e < 4; ++e) {
    const int row = lane / 4 + 8 * (e / 2), column = 2 * (lane % 4) + e % 2;
    for (int k = 0; k < 8; ++k) {
      const uint32_t left = lanes[row % 8 * 4 + k % 4][row / 8 + 2 * (k / 4)];
      c[e] += __uint_as_float(left) * __uint_as_float(lanes[column * 4 + k % 4][4 + k / 4]);
    }
  }
}

struct Body { virtual void run() = 0; };
static Body* body;
static void enter() {
  body->run();
  wait_for(kDone);
}

inline void resume(Coroutine& c) {
  if (_setjmp(scheduler)) return;  // the coroutine waits for something
  if (c.started) _longjmp(c.place, 1);
  c.started = true;
  swapcontext(&scheduler_context, &c.context);
}

inline void run_block() {
  if (!stacks) stacks.reset(new char[kMostThreads * kStackSize]);
  for (int t = 0; t < num_threads; ++t) {
    Coroutine& c = coroutines[t];
    getcontext(&c.context);
    c.context.uc_stack.ss_sp = stacks.get() + t * kStackSize;
    c.context.uc_stack.ss_size = kStackSize;
    c.context.uc_link = &scheduler_context;
    makecontext(&c.context, enter, 0);
    c.state = kRuns;
    c.started = false;
    c.exchanges = 0;
  }
  for (;;) {
    bool all_done = true;
    for (int t = 0; t < num_threads; ++t) {
      if (coroutines[t].state == kRuns) {
        threadIdx = {t, 0, 0};
        resume(coroutines[t]);
      }
      all_done = all_done && coroutines[t].state == kDone;
    }
    if (all_done) return;
    bool whole_block = true;
    for (int t = 0; t < num_threads; ++t) whole_block = whole_block && coroutines[t].state == kAtBlock;
    if (whole_block) {
      for (int t = 0; t < num_threads; ++t) coroutines[t].state = kRuns;
      continue;
    }
    bool moved = false;
    for (int w = 0; w < num_threads / 32; ++w) {
      bool whole_warp = true;
      for (int t = 32 * w; t < 32 * w + 32; ++t) whole_warp = whole_warp && coroutines[t].state == kAtWarp;
      for (int t = 32 * w; whole_warp && t < 32 * w + 32; ++t) coroutines[t].state = kRuns;
      moved = moved || whole_warp;
    }
    if (!moved) abort();  // threads wait for each other in different places
  }
}

template <typename... A, size_t... I>
void launch(
    void (*kernel)(A...), const int* grid, int threads, int shared_bytes, void** arguments, std::index_sequence<I...>) {
  struct Call : Body {
    void (*kernel)(A...);
    void** arguments;
    void run() override { kernel((A)arguments[I]...); }
  } call;
  call.kernel = kernel;
  call.arguments = arguments;
  body = &call;
  num_threads = threads;
  // It ends at a page that nobody may touch, so a kernel that uses more than it was given ends the process.
  const size_t page = sysconf(_SC_PAGESIZE), size = (shared_bytes + 15) / 16 * 16, room = (size + page - 1) / page * page;
  char* pages = (char*)mmap(nullptr, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || mprotect(pages + room, page, PROT_NONE)) abort();
  for (int z = 0; z < grid[2]; ++z)
    for (int y = 0; y < grid[1]; ++y)
      for (int x = 0; x < grid[0]; ++x) {
        memory = (uint4*)(pages + room - size);
        memset(memory, 0xff, size);  // not a number: what is read must have been written
        blockIdx = {x, y, z};
        run_block();
      }
  munmap(pages, room + page);
}

template <typename... A>
void launch(void (*kernel)(A...), const int* grid, int threads, int shared_bytes, void** arguments) {
  launch(kernel, grid, threads, shared_bytes, arguments, std::index_sequence_for<A...>());
}
