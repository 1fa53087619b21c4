/* The toolkit's small vector types: float4, int2, dim3 ... In C plain structs; in C++ the wide ones copy themselves in one access.
 *
 * Why: a GPU loads a float4 with one 16-byte instruction. A compiler is free to split the copy of a plain struct into four 4-byte
 * loads; going through a vector type keeps it one, so that a checker or counter sees what the GPU does, and a misaligned float4
 * faults here as it does there. */
#pragma once

#ifdef __cplusplus

/* Types that are read and written whole: 8 or 16 bytes, aligned to their size. */
#define EMU_WIDE2(name, T)                                                      \
  struct alignas(2 * sizeof(T)) name {                                          \
    typedef T emu_whole __attribute__((vector_size(2 * sizeof(T)), may_alias)); \
    T x, y;                                                                     \
    name() = default;                                                           \
    constexpr name(T x_, T y_) : x(x_), y(y_) {}                                \
    name(const name &o) { *(emu_whole *)this = *(const emu_whole *)&o; }        \
    name &operator=(const name &o) {                                            \
      *(emu_whole *)this = *(const emu_whole *)&o;                              \
      return *this;                                                             \
    }                                                                           \
  };                                                                            \
  static inline constexpr name make_##name(T x, T y) { return name(x, y); }

#define EMU_WIDE4(name, T)                                                      \
  struct alignas(4 * sizeof(T)) name {                                          \
    typedef T emu_whole __attribute__((vector_size(4 * sizeof(T)), may_alias)); \
    T x, y, z, w;                                                               \
    name() = default;                                                           \
    constexpr name(T x_, T y_, T z_, T w_) : x(x_), y(y_), z(z_), w(w_) {}      \
    name(const name &o) { *(emu_whole *)this = *(const emu_whole *)&o; }        \
    name &operator=(const name &o) {                                            \
      *(emu_whole *)this = *(const emu_whole *)&o;                              \
      return *this;                                                             \
    }                                                                           \
  };                                                                            \
  static inline constexpr name make_##name(T x, T y, T z, T w) { return name(x, y, z, w); }

#define EMU_PLAIN1(name, T) \
  struct name {             \
    T x;                    \
  };                        \
  static inline constexpr name make_##name(T x) { return name{x}; }
#define EMU_PLAIN2(name, T)            \
  struct alignas(2 * sizeof(T)) name { \
    T x, y;                            \
  };                                   \
  static inline constexpr name make_##name(T x, T y) { return name{x, y}; }
#define EMU_PLAIN3(name, T) \
  struct name {             \
    T x, y, z;              \
  };                        \
  static inline constexpr name make_##name(T x, T y, T z) { return name{x, y, z}; }
#define EMU_PLAIN4(name, T)            \
  struct alignas(4 * sizeof(T)) name { \
    T x, y, z, w;                      \
  };                                   \
  static inline constexpr name make_##name(T x, T y, T z, T w) { return name{x, y, z, w}; }

#else /* C sees the same layouts */

#define EMU_PLAIN1(name, T) \
  typedef struct name {     \
    T x;                    \
  } name;
#define EMU_PLAIN2(name, T)      \
  typedef struct name {          \
    _Alignas(2 * sizeof(T)) T x; \
    T y;                         \
  } name;
#define EMU_PLAIN3(name, T) \
  typedef struct name {     \
    T x, y, z;              \
  } name;
#define EMU_PLAIN4(name, T)      \
  typedef struct name {          \
    _Alignas(4 * sizeof(T)) T x; \
    T y, z, w;                   \
  } name;
#define EMU_WIDE2 EMU_PLAIN2
#define EMU_WIDE4 EMU_PLAIN4

#endif

EMU_PLAIN1(char1, signed char)
EMU_PLAIN2(char2, signed char)
EMU_PLAIN3(char3, signed char)
EMU_PLAIN4(char4, signed char)
EMU_PLAIN1(uchar1, unsigned char)
EMU_PLAIN2(uchar2, unsigned char)
EMU_PLAIN3(uchar3, unsigned char)
EMU_PLAIN4(uchar4, unsigned char)
EMU_PLAIN1(short1, short)
EMU_PLAIN2(short2, short)
EMU_PLAIN3(short3, short)
EMU_WIDE4(short4, short)
EMU_PLAIN1(ushort1, unsigned short)
EMU_PLAIN2(ushort2, unsigned short)
EMU_PLAIN3(ushort3, unsigned short)
EMU_WIDE4(ushort4, unsigned short)
EMU_PLAIN1(int1, int)
EMU_WIDE2(int2, int)
EMU_PLAIN3(int3, int)
EMU_WIDE4(int4, int)
EMU_PLAIN1(uint1, unsigned)
EMU_WIDE2(uint2, unsigned)
EMU_PLAIN3(uint3, unsigned)
EMU_WIDE4(uint4, unsigned)
EMU_PLAIN1(float1, float)
EMU_WIDE2(float2, float)
EMU_PLAIN3(float3, float)
EMU_WIDE4(float4, float)
EMU_PLAIN1(longlong1, long long)
EMU_WIDE2(longlong2, long long)
EMU_PLAIN1(ulonglong1, unsigned long long)
EMU_WIDE2(ulonglong2, unsigned long long)
EMU_PLAIN1(double1, double)
EMU_WIDE2(double2, double)

/* Sizes of grids and blocks: what is left out is 1. */
typedef struct dim3 {
  unsigned x, y, z;
#ifdef __cplusplus
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return uint3{x, y, z}; }
#endif
} dim3;

#undef EMU_WIDE2
#undef EMU_WIDE4
#undef EMU_PLAIN1
#undef EMU_PLAIN2
#undef EMU_PLAIN3
#undef EMU_PLAIN4
